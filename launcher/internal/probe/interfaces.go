package probe

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxCandidates bounds the addresses that a node reports: a host of containers can have hundreds.
const maxCandidates = 64

// Candidates lists the addresses of this host's interfaces that are up, most plausible first. It reads root (the root
// directory) for what sysfs says about interfaces; without sysfs, names and flags decide.
func Candidates(root fs.FS) ([]Candidate, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces of this host: %w", err)
	}
	// net.Interface.Addrs would dump all addresses once per interface.
	rib, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("list the addresses of this host: %w", err)
	}
	messages, err := syscall.ParseNetlinkMessage(rib)
	if err != nil {
		return nil, fmt.Errorf("read the addresses of this host: %w", err)
	}
	byIndex := map[int]Candidate{}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp != 0 {
			byIndex[i.Index] = describe(root, i)
		}
	}
	var all []Candidate
	for _, m := range messages {
		if c, ok := parseAddress(m, byIndex); ok {
			all = append(all, c)
		}
	}
	Sort(all, false)
	return all[:min(len(all), maxCandidates)], nil
}

// parseAddress reads an RTM_NEWADDR message; see rtnetlink(7).
func parseAddress(m syscall.NetlinkMessage, byIndex map[int]Candidate) (c Candidate, ok bool) {
	const header = 8 // struct ifaddrmsg: family, prefix length, flags, scope, index
	if m.Header.Type != syscall.RTM_NEWADDR || len(m.Data) < header {
		return c, false
	}
	c, ok = byIndex[int(binary.NativeEndian.Uint32(m.Data[4:]))]
	attributes, err := syscall.ParseNetlinkRouteAttr(&m)
	if !ok || err != nil {
		return c, false
	}
	flags := uint32(m.Data[2])
	for _, a := range attributes {
		switch {
		// IFA_ADDRESS is the peer's address if there is an IFA_LOCAL, too.
		case a.Attr.Type == unix.IFA_ADDRESS && !c.Addr.IsValid(), a.Attr.Type == unix.IFA_LOCAL:
			c.Addr, _ = netip.AddrFromSlice(a.Value)
		case a.Attr.Type == unix.IFA_FLAGS && len(a.Value) >= 4:
			flags = binary.NativeEndian.Uint32(a.Value)
		}
	}
	c.Bits = int(m.Data[1])
	c.Temporary = flags&unix.IFA_F_DEPRECATED != 0 || m.Data[0] == syscall.AF_INET6 && flags&unix.IFA_F_TEMPORARY != 0
	unusable := flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 && flags&unix.IFA_F_OPTIMISTIC == 0
	return c, c.Addr.IsValid() && !unusable
}

// describe returns what all candidates of an interface have in common.
func describe(root fs.FS, i net.Interface) Candidate {
	dir := path.Join("sys/class/net", i.Name)
	f := facts{
		name:         i.Name,
		loopback:     i.Flags&net.FlagLoopback != 0,
		pointToPoint: i.Flags&net.FlagPointToPoint != 0,
		running:      i.Flags&net.FlagRunning != 0,
		hardware:     hardware(root, dir, maxLayers),
		bridge:       exists(root, dir+"/bridge"),
		tunnel:       exists(root, dir+"/tun_flags") || slices.Contains(tunnelTypes, number(root, dir+"/type")),
	}
	return Candidate{
		Interface: i.Name, Kind: f.kind(), Mbps: max(0, number(root, dir+"/speed")), MTU: i.MTU, Device: f.hardware,
	}
}

// tunnelTypes are ARPHRD_PPP, TUNNEL, TUNNEL6, SIT, IPGRE, IP6GRE and NONE (tun, WireGuard).
var tunnelTypes = []int{512, 768, 769, 776, 778, 823, 65534}

// maxLayers bounds how deeply bonds, VLANs and bridges are followed.
const maxLayers = 4

// hardware reports whether an interface is a device or is built on one.
func hardware(root fs.FS, dir string, layers int) bool {
	if exists(root, dir+"/device") {
		return true
	}
	entries, err := fs.ReadDir(root, dir)
	if err != nil || layers == 0 {
		return false
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		name, isLower := strings.CutPrefix(e.Name(), "lower_")
		return isLower && hardware(root, path.Join("sys/class/net", name), layers-1)
	})
}

func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}

// number reads a file that holds one number; 0 if it cannot.
func number(root fs.FS, name string) int {
	b, _ := fs.ReadFile(root, name)
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}
