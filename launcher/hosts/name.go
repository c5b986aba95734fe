package hosts

import (
	"net/netip"
	"strings"
)

// SameName reports whether two names may mean the same host. A short name matches the same name with a domain; two
// domains, and addresses, have to be equal.
func SameName(a, b string) bool {
	a, b = strings.ToLower(strings.TrimSuffix(a, ".")), strings.ToLower(strings.TrimSuffix(b, "."))
	if isAddress(a) || isAddress(b) {
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
