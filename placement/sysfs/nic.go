package sysfs

import (
	"cmp"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"gorun/placement"
)

const (
	netDir  = "sys/class/net"
	rdmaDir = "sys/class/infiniband"
)

// Types of network interfaces from the kernel's if_arp.h.
const (
	arpEthernet   = 1
	arpInfiniBand = 32
	arpLoopback   = 772
)

// RDMA reads the ports of the RDMA devices that this process may use, without their positions on the bus.
func RDMA() []placement.NIC { return RDMAFS(disk("/")) }

// RDMAFS is like RDMA, for a file tree.
func RDMAFS(root fs.FS) []placement.NIC {
	r := &reader{root: root, machine: placement.Machine{Topology: &placement.Topology{}}}
	var ports []placement.NIC
	for _, device := range r.names(rdmaDir) {
		ports = append(ports, r.readRDMA(device)...)
	}
	for i := range ports {
		ports[i].Bus = nil
	}
	ports = r.givenPorts(ports)
	slices.SortStableFunc(ports, func(a, b placement.NIC) int { return natural(a.Name, b.Name) })
	return ports
}

// givenPorts removes the ports of devices that this container was not given: /sys lists all of the host, but libibverbs
// ignores those without a device file. All ports stay if no file exists.
func (r *reader) givenPorts(ports []placement.NIC) []placement.NIC {
	const verbs = "sys/class/infiniband_verbs"
	given := map[string]bool{}
	for _, name := range r.names(verbs) {
		if device, ok := r.text(verbs + "/" + name + "/ibdev"); ok && r.exists("dev/infiniband/"+name) {
			given[device] = true
		}
	}
	if len(given) == 0 {
		return ports
	}
	return slices.DeleteFunc(ports, func(p placement.NIC) bool { return !given[p.Name] })
}

// readNICs reads the ports of RDMA devices with their network interfaces, then the other interfaces.
// Hardware interfaces come first, in the order of their names.
func (r *reader) readNICs() {
	var nics []placement.NIC
	for _, device := range r.names(rdmaDir) {
		nics = append(nics, r.readRDMA(device)...)
	}
	taken := map[string]bool{}
	for _, nic := range nics {
		taken[nic.Interface] = true
	}
	for _, name := range r.names(netDir) {
		if taken[name] {
			continue
		}
		if nic, ok := r.readInterface(name); ok {
			nics = append(nics, nic)
		}
	}
	slices.SortStableFunc(nics, func(a, b placement.NIC) int {
		return cmp.Or(boolean(a.Kind == placement.Virtual)-boolean(b.Kind == placement.Virtual), natural(a.Name, b.Name))
	})
	r.machine.Topology.NICs = nics
}

func boolean(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// natural compares names with embedded numbers: "mlx5_2" is less than "mlx5_10".
func natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		headX, numberX, restX := cutNumber(x)
		headY, numberY, restY := cutNumber(y)
		if c := cmp.Or(cmp.Compare(headX, headY), cmp.Compare(len(numberX), len(numberY)),
			cmp.Compare(numberX, numberY)); c != 0 {
			return c
		}
		x, y = restX, restY
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// cutNumber splits "mlx5_10p1" into "mlx", "5" and "_10p1". It ignores leading zeros.
func cutNumber(text string) (head, number, rest string) {
	isDigit := func(c rune) bool { return c >= '0' && c <= '9' }
	i := strings.IndexFunc(text, isDigit)
	if i < 0 {
		return text, "", ""
	}
	end := i + len(text[i:]) - len(strings.TrimLeftFunc(text[i:], isDigit))
	return text[:i], strings.TrimLeft(text[i:end], "0"), text[end:]
}

// peripheral lists the name prefixes of the host interfaces of containers and virtual machines. There
// can be hundreds, and jobs do not use them.
var peripheral = []string{"veth", "cali", "lxc", "vnet", "tap", "ifb"}

// readInterface reads a network interface. It skips the loopback, ports of a software bridge, and
// virtual interfaces that are down.
func (r *reader) readInterface(name string) (nic placement.NIC, ok bool) {
	if slices.ContainsFunc(peripheral, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return nic, false
	}
	dir := netDir + "/" + name
	kind, isInterface := r.number(dir + "/type") // the folder also has other files
	if !isInterface || kind == arpLoopback {
		return nic, false
	}
	target, _ := fs.ReadLink(r.root, dir)
	nic = placement.NIC{Name: name, Interface: name, GID: -1}
	switch {
	case strings.Contains(target, "/virtual/") || target == "" && !r.exists(dir+"/device"):
		nic.Kind = placement.Virtual
	case kind == arpEthernet:
		nic.Kind = placement.Ethernet
	case kind == arpInfiniBand:
		nic.Kind = placement.InfiniBand
	default:
		return nic, false
	}
	r.readOperState(&nic)
	if nic.Kind == placement.Virtual {
		return nic, nic.Up && !r.exists(dir+"/master")
	}
	r.virtio = r.virtio || strings.Contains(target, "/virtio")
	if _, _, address := busPath(target); address != "" {
		nic.Bus = r.bus(address)
	}
	return nic, true
}

// readOperState reads the state and the speed of an interface. An interface is "unknown", but works,
// if its driver does not report a state.
func (r *reader) readOperState(nic *placement.NIC) {
	dir := netDir + "/" + nic.Interface
	state, _ := r.text(dir + "/operstate")
	nic.Up = state == "up" || state == "unknown"
	if !nic.Up {
		nic.State = state
		return
	}
	if megabits, ok := r.number(dir + "/speed"); ok && megabits > 0 {
		nic.Gbps = float64(megabits) / 1000
	}
}

func (r *reader) readRDMA(device string) []placement.NIC {
	dir := rdmaDir + "/" + device
	target, _ := fs.ReadLink(r.root, dir)
	event, _ := r.text(dir + "/device/uevent")
	var bus *placement.Bus
	if _, _, address := busPath(target); address != "" {
		bus = r.bus(address)
	}
	ports := r.names(dir + "/ports")
	interfaces := r.names(dir + "/device/net")
	var nics []placement.NIC
	for _, name := range ports {
		port, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		nic := placement.NIC{Name: device, Port: port, Bus: bus, GID: -1}
		r.readPort(&nic, dir+"/ports/"+name)
		switch {
		case strings.Contains(target, "/virtual/"): // Soft-RoCE
			nic.Kind = placement.Virtual
			nic.Interface, _ = r.text(dir + "/parent")
		case strings.HasPrefix(field(event, "PCI_ID="), "1D0F:"): // Amazon
			nic.Kind = placement.EFA
		}
		if nic.Interface == "" {
			nic.Interface = r.interfaceOf(port, len(ports), interfaces)
		}
		if nic.Kind == placement.RoCE {
			nic.GID, nic.GIDIPv6 = r.gid(dir + "/ports/" + name)
		}
		nics = append(nics, nic)
	}
	return nics
}

// readPort reads the kind, the state and the rate of a port.
func (r *reader) readPort(nic *placement.NIC, dir string) {
	layer, _ := r.text(dir + "/link_layer")
	switch layer {
	case "Ethernet":
		nic.Kind = placement.RoCE
	default:
		nic.Kind = placement.InfiniBand
	}
	text, _ := r.text(dir + "/state")
	state := afterColon(text)
	nic.Up = state == "ACTIVE"
	if !nic.Up {
		nic.State = state
		if state == "DOWN" { // the physical state is more specific
			physical, _ := r.text(dir + "/phys_state")
			nic.State = cmp.Or(afterColon(physical), state)
		}
		return
	}
	text, _ = r.text(dir + "/rate")
	number, _, _ := strings.Cut(text, " ")
	if rate, err := strconv.ParseFloat(number, 64); err == nil && rate > 0 && rate < 1e6 {
		nic.Gbps = rate
	}
}

// afterColon returns "ACTIVE" for "4: ACTIVE".
func afterColon(text string) string {
	_, word, _ := strings.Cut(text, ": ")
	return word
}

// interfaceOf returns the network interface of a port, given the interfaces of the device.
func (r *reader) interfaceOf(port, ports int, interfaces []string) string {
	if len(interfaces) == 0 {
		return ""
	}
	if ports > 1 {
		for _, name := range interfaces {
			if n, ok := r.number(netDir + "/" + name + "/dev_port"); ok && n == port-1 {
				return name
			}
		}
	}
	// Several interfaces of one port are an IPoIB parent and its children ("ib0.8001").
	return slices.MinFunc(interfaces, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), natural(a, b)) })
}

// maxGIDs is the number of entries to read from a port's GID table. Tables have up to 256 entries, but
// only the first few are in use.
const maxGIDs = 16

// gid returns the index of a port's RoCE v2 address. It prefers an IPv4 address (::ffff:a.b.c.d) to an
// IPv6 address that is not link-local. The result is -1 if there is no such address.
func (r *reader) gid(dir string) (index int, isIPv6 bool) {
	other := -1
	for i := range maxGIDs {
		name := strconv.Itoa(i)
		gid, ok := r.text(dir + "/gids/" + name)
		if !ok {
			break
		}
		isIPv4 := strings.HasPrefix(gid, "0000:0000:0000:0000:0000:ffff:")
		if !isIPv4 && (other >= 0 || strings.HasPrefix(gid, "fe80:") || strings.Trim(gid, "0:") == "") {
			continue
		}
		if kind, _ := r.text(dir + "/gid_attrs/types/" + name); kind != "RoCE v2" {
			continue
		}
		if isIPv4 {
			return i, false
		}
		other = i
	}
	return other, other >= 0
}
