package hosts

import (
	"net/netip"
	"strings"
)

// SameName reports whether two names mean the same host: a short name fits the same one
// with a domain, two domains have to be equal, and an address is the same one alone.
func SameName(a, b string) bool {
	a, b = strings.ToLower(strings.TrimSuffix(a, ".")), strings.ToLower(strings.TrimSuffix(b, "."))
	if isAddress(a) || isAddress(b) { // 10.0.0.1 has no domain
		return a == b
	}
	shortA, domainA, _ := strings.Cut(a, ".")
	shortB, domainB, _ := strings.Cut(b, ".")
	return shortA != "" && shortA == shortB && (domainA == domainB || domainA == "" || domainB == "")
}

func isAddress(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}
