package testhosts

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

const (
	mountNamespace = syscall.CLONE_NEWNS
	utsNamespace   = syscall.CLONE_NEWUTS
	ipcNamespace   = syscall.CLONE_NEWIPC

	mainBridge = "br0"
)

// ip runs lines of iproute2's batch language in a space's network namespace.
func (s *space) ip(lines string) error {
	if !s.alive() { // its pid may have been reused
		return fmt.Errorf("ip -batch: the host is down: process %d is gone", s.pid)
	}
	cmd := exec.Command("nsenter", "--net="+s.file("ns/net"), "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(lines)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip -batch: %w: %s: %s", err, strings.TrimSpace(string(out)),
			strings.ReplaceAll(strings.TrimSpace(lines), "\n", "; "))
	}
	return nil
}

// bridgeLines makes a bridge without a forwarding delay.
func bridgeLines(name string) string {
	return "link add " + name + " type bridge stp_state 0 forward_delay 0\nlink set " + name + " up\n"
}

// plug connects hosts to the bridge.
func (s *Set) plug(hosts ...*host) error {
	var lines strings.Builder
	for _, h := range hosts {
		fmt.Fprintf(&lines, "link add %s type veth peer name eth0 address %s netns %d\nlink set %s master %s up\n",
			h.cable, h.ethernet(), h.pid, h.cable, mainBridge)
	}
	if err := s.links.ip(lines.String()); err != nil {
		return err
	}
	for _, h := range hosts {
		if err := h.ip(fmt.Sprintf("addr add %s/16 dev eth0\nlink set eth0 up\n", h.address)); err != nil {
			return err
		}
	}
	return nil
}

// ethernet returns the address of a host's eth0, which survives Boot.
func (h *host) ethernet() string {
	ip := netip.MustParseAddr(h.address).As4()
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", ip[0], ip[1], ip[2], ip[3])
}

// Cut unplugs a host: eth0 loses its carrier. Heal undoes it.
func (s *Set) Cut(host string) error {
	return s.atCable(host, "link set %[1]s down\n")
}

// Blackhole loses every packet from and to a host, while its carrier stays. Heal undoes it.
func (s *Set) Blackhole(host string) error {
	return s.atCable(host, "link set %[1]s nomaster\n")
}

// Heal undoes Cut and Blackhole.
func (s *Set) Heal(host string) error {
	return s.atCable(host, "link set %[1]s up\nlink set %[1]s master %[2]s\n")
}

// atCable changes the bridge's end of a host's cable.
func (s *Set) atCable(name, format string) error {
	h, err := s.host(name)
	if err != nil {
		return err
	}
	format += "%.0[2]s" // not every format names the bridge
	return s.links.ip(fmt.Sprintf(format, h.cable, h.bridge()))
}

// Interface is an additional interface of a host.
type Interface struct {
	Name      string   // 15 bytes at most
	Addresses []string // "172.17.0.1/16", "fd00::1/64"; the same may be on several hosts
	// Bridge is the network to join, which AddInterface makes if needed; "br0" is the one of all hosts. Without one, the
	// interface has a carrier and loses all packets, as a dead VPN.
	Bridge string
	// Kind is "" for a veth, "bridge" for one without ports, as docker0, or "tun" or "tap" without a program. Only the
	// first
	// has a carrier.
	Kind      string
	Down      bool // do not bring it up
	NoCarrier bool // of a veth: as if no cable were plugged in
	MTU       int  // 0: the kernel's choice
}

// AddInterface adds an interface to a host until the host ends.
func (s *Set) AddInterface(host string, i Interface) error {
	h, err := s.host(host)
	if err != nil {
		return err
	}
	if i.Kind == "" || i.Kind == "veth" {
		err = s.addCable(h, i)
	} else {
		err = h.ip(i.kindLine())
	}
	if err != nil {
		return err
	}
	return h.ip(i.lines())
}

// addCable makes a veth, whose other end stays in the namespace of the bridges.
func (s *Set) addCable(h *host, i Interface) error {
	if i.Bridge != "" && i.Bridge != mainBridge && s.links.ip("link show dev "+i.Bridge+"\n") != nil {
		if err := s.links.ip(bridgeLines(i.Bridge)); err != nil {
			return err
		}
	}
	h.extra++
	end := h.cable + "x" + strconv.Itoa(h.extra)
	lines := fmt.Sprintf("link add %s type veth peer name %s netns %d\n", end, i.Name, h.pid)
	if i.Bridge != "" {
		lines += "link set " + end + " master " + i.Bridge + "\n"
	}
	if !i.NoCarrier {
		lines += "link set " + end + " up\n"
	}
	return s.links.ip(lines)
}

// kindLine makes an interface other than a veth.
func (i Interface) kindLine() string {
	if i.Kind == "tun" || i.Kind == "tap" {
		return "tuntap add dev " + i.Name + " mode " + i.Kind + "\n"
	}
	return "link add " + i.Name + " type " + i.Kind + "\n"
}

// lines configures an interface.
func (i Interface) lines() string {
	var lines strings.Builder
	for _, address := range i.Addresses {
		lines.WriteString(addressLine("add", i.Name, address))
	}
	if i.MTU != 0 {
		fmt.Fprintf(&lines, "link set %s mtu %d\n", i.Name, i.MTU)
	}
	if !i.Down {
		lines.WriteString("link set " + i.Name + " up\n")
	}
	if i.Kind == "bridge" { // it has a carrier until it loses its last port
		lines.WriteString("link add port0 type veth peer name port1\nlink set port0 master " + i.Name + "\nlink del port0\n")
	}
	return lines.String()
}

// addressLine adds or deletes an address, without the second of IPv6's duplicate address detection.
func addressLine(verb, name, address string) string {
	line := "addr " + verb + " " + address + " dev " + name
	if verb == "add" && strings.Contains(address, ":") {
		line += " nodad"
	}
	return line + "\n"
}

// AddAddress adds an address ("fd77::1/64") to an interface of a host.
func (s *Set) AddAddress(host, name, address string) error {
	return s.IP(host, strings.TrimSpace(addressLine("add", name, address)))
}

// RemoveAddress removes an address.
func (s *Set) RemoveAddress(host, name, address string) error {
	return s.IP(host, strings.TrimSpace(addressLine("del", name, address)))
}

// IP runs lines of iproute2's batch language in a host's network: "route add blackhole 10.9.0.0/16", "link set eth1
// down".
func (s *Set) IP(host string, lines ...string) error {
	h, err := s.host(host)
	if err != nil {
		return err
	}
	return h.ip(strings.Join(lines, "\n") + "\n")
}
