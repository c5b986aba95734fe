package probe

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const resolveTimeout = 5 * time.Second

// MarkNamed sets Named on the candidates that a name given by the user resolves to on this host, and adds addresses of
// the loopback network. If the name resolves to the loopback only because of the host's own /etc/hosts (127.0.1.1), it
// marks nothing and returns a note: other hosts never reach that address.
func MarkNamed(ctx context.Context, all []Candidate, name string) (marked []Candidate, note string, err error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	addrs, err := resolve(ctx, name)
	if err != nil {
		return all, "", fmt.Errorf("resolve %s: %w", name, err)
	}
	return mark(all, name, addrs)
}

// LocalAddresses returns the addresses of this host's interfaces, without zones. If they cannot be listed it is empty.
func LocalAddresses() map[netip.Addr]bool {
	local := map[netip.Addr]bool{}
	list, _ := net.InterfaceAddrs()
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			local[p.Addr().Unmap().WithZone("")] = true
		}
	}
	return local
}

// Lookup returns the addresses of a name, without a query for addresses and localhost.
func Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if name == "localhost" {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found, err := resolve(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("find the address of %s: %w", name, err)
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	return found, nil
}

func resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return []netip.Addr{addr}, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

func mark(all []Candidate, name string, addrs []netip.Addr) (marked []Candidate, note string, err error) {
	marked = slices.Clone(all)
	_, parseErr := netip.ParseAddr(strings.Trim(name, "[]"))
	wantsLoopback := parseErr == nil || strings.EqualFold(name, "localhost")
	found, loopbacks := false, 0
	for _, addr := range addrs {
		addr = addr.Unmap()
		i := slices.IndexFunc(marked, func(c Candidate) bool { return c.has(addr) })
		switch {
		case addr.IsLoopback() && !wantsLoopback:
			loopbacks++
		case i >= 0:
			marked[i].Named, found = true, true
		case addr.IsLoopback():
			marked, found = append(marked, Candidate{Addr: addr, Bits: 8, Interface: "lo", Kind: Loopback, Named: true}), true
		}
	}
	switch {
	case found:
		return marked, "", nil
	case loopbacks == len(addrs) && loopbacks > 0:
		return marked, fmt.Sprintf("%s resolves to %s there, which no other host reaches: gorun tries all addresses "+
			"of the host", name,
			addrs[0]), nil
	}
	return marked, "", fmt.Errorf("%s is not an address of the host; it has %s", withAddresses(name, addrs), list(all))
}

// has reports whether addr, with or without a zone, is the candidate's address.
func (c Candidate) has(addr netip.Addr) bool {
	return c.Addr == addr.WithZone("") && (addr.Zone() == "" || addr.Zone() == c.Interface)
}

func withAddresses(name string, addrs []netip.Addr) string {
	var texts []string
	for _, a := range addrs {
		texts = append(texts, a.Unmap().String())
	}
	if text := strings.Join(texts, ", "); text != strings.Trim(name, "[]") {
		return name + " (" + text + ")"
	}
	return name
}

func list(all []Candidate) string {
	var texts []string
	for _, c := range all {
		if c.Kind != Loopback {
			texts = append(texts, c.String())
		}
	}
	if len(texts) == 0 {
		return "only loopback addresses"
	}
	return strings.Join(texts[:min(len(texts), maxRows)], ", ")
}
