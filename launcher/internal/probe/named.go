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

// resolveTime is how long a name's resolution may take.
const resolveTime = 5 * time.Second

// Name marks the addresses that a name which the user gave stands for on this host;
// those of the loopback network are added. A name that stands for the loopback by the
// host's own /etc/hosts (127.0.1.1) marks nothing: others never reach it, and the
// user did not mean it. A note says so.
func Name(ctx context.Context, all []Candidate, name string) (marked []Candidate, note string, err error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	addrs, err := resolve(ctx, name)
	if err != nil {
		return all, "", fmt.Errorf("%s cannot be resolved: %w", name, err)
	}
	return mark(all, name, addrs)
}

func resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return []netip.Addr{addr}, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// mark is the pure part of Name.
func mark(all []Candidate, name string, addrs []netip.Addr) (marked []Candidate, note string, err error) {
	marked = slices.Clone(all)
	_, parsed := netip.ParseAddr(strings.Trim(name, "[]"))
	meansLoopback := parsed == nil || strings.EqualFold(name, "localhost")
	found, loops := false, 0
	for _, addr := range addrs {
		addr = addr.Unmap()
		i := slices.IndexFunc(marked, func(c Candidate) bool {
			return c.Addr == addr.WithZone("") && (addr.Zone() == "" || addr.Zone() == c.Interface)
		})
		switch {
		case addr.IsLoopback() && !meansLoopback:
			loops++
		case i >= 0:
			marked[i].Named, found = true, true
		case addr.IsLoopback():
			marked, found = append(marked, Candidate{Addr: addr, Bits: 8, Interface: "lo", Kind: Loopback, Named: true}), true
		}
	}
	switch {
	case found:
		return marked, "", nil
	case loops == len(addrs) && loops > 0:
		return marked, fmt.Sprintf("%s is %s there, which no other host reaches: all of its addresses are tried", name,
			addrs[0]), nil
	}
	return marked, "", fmt.Errorf("%s is not one of its addresses, which are %s", meaning(name, addrs), inWords(all))
}

// meaning is a name with its addresses.
func meaning(name string, addrs []netip.Addr) string {
	var texts []string
	for _, a := range addrs {
		texts = append(texts, a.Unmap().String())
	}
	if text := strings.Join(texts, ", "); text != strings.Trim(name, "[]") {
		return name + " (" + text + ")"
	}
	return name
}

func inWords(all []Candidate) string {
	var texts []string
	for _, c := range all {
		if c.Kind != Loopback {
			texts = append(texts, c.String())
		}
	}
	if len(texts) == 0 {
		return "none but its loopback's"
	}
	return strings.Join(texts[:min(len(texts), maxRows)], ", ")
}
