// Package hosts knows the ways in which users say where ranks may run: the lists
// behind -H and --host, and the host files of Open MPI and Hydra, whose union it
// reads.
//
// A list is what mpirun takes: names separated by commas, each with an optional
// number of slots.
//
//	node1            one host, number of slots not said
//	node1:4,node2:4  four slots each
//	node1,node1      the same as node1:2
//	[::1]:3, ::1     an IPv6 address needs brackets before a number
//
// A file has one host on a line:
//
//	# comment
//	node1                          Open MPI, Hydra
//	node2 slots=4 max-slots=8      Open MPI
//	node3:4                        Hydra
//	alice@node4 port=2222          Open MPI
//
// What is named twice has the sum of its slots. The package reads no file and
// resolves no name: text comes in, hosts go out.
package hosts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Host is one host of a wish.
type Host struct {
	// Name is the host's name or address as the user wrote it, without user and
	// port. An IPv6 address stands without brackets.
	Name string
	// Slots is the number of ranks that the host is meant to take; 0: not said.
	Slots int
	// MaxSlots is the number of ranks that it must not exceed; 0: no limit.
	MaxSlots int
	// User and Port are how to log in there; "" and 0: not said.
	User string
	Port int
	// Address is how other nodes reach this one where that is not by Name (Hydra's
	// ifhn=); "": not said.
	Address string
	// Here says that the host is the one that gorun runs on: nobody has to log in.
	Here bool
	// From says where the host was named first: "-H node1:4" or "hosts.txt:3".
	From string
}

// IsLoopback reports whether the name means this host by itself, wherever it is
// read: localhost, ::1 or an address in 127.0.0.0/8.
func (h Host) IsLoopback() bool {
	name := strings.ToLower(h.Name)
	return name == "localhost" || name == "::1" || strings.HasPrefix(name, "127.") && strings.Trim(name, "0123456789.") == ""
}

// TotalSlots is the number of slots of all hosts, or 0 when some host leaves its
// number open.
func TotalSlots(all []Host) int {
	total := 0
	for _, h := range all {
		if h.Slots == 0 {
			return 0
		}
		total += h.Slots
	}
	return total
}

// Merge sums the hosts that have the same name, in the order in which each was
// named first. An entry without a number counts as one slot where its name comes
// again, as in Open MPI and Hydra.
func Merge(all []Host) []Host {
	var merged []Host
	for _, h := range all {
		at := slices.IndexFunc(merged, func(m Host) bool { return m.Name == h.Name })
		if at < 0 {
			merged = append(merged, h)
			continue
		}
		merged[at] = sum(merged[at], h)
	}
	return merged
}

// Sum makes one host of several that are the same machine under different
// names; all is not empty. The first name stays.
func Sum(all []Host) Host {
	total := all[0]
	for _, h := range all[1:] {
		total = sum(total, h)
	}
	return total
}

func sum(a, b Host) Host {
	a.Slots = max(a.Slots, 1) + max(b.Slots, 1)
	if a.MaxSlots > 0 && b.MaxSlots > 0 {
		a.MaxSlots += b.MaxSlots
	} else {
		a.MaxSlots = 0
	}
	a.User, a.Port = cmp.Or(a.User, b.User), cmp.Or(a.Port, b.Port)
	return a
}

// Select returns the hosts of wanted, each with what all says about it: where a
// list and a host file are given, the list chooses from the file. A number of
// slots in wanted counts more than the file's. A host that all lacks is an error.
func Select(all, wanted []Host) ([]Host, error) {
	selected := make([]Host, 0, len(wanted))
	for _, w := range wanted {
		at := slices.IndexFunc(all, func(h Host) bool { return h.Name == w.Name })
		if at < 0 {
			return nil, fmt.Errorf("%s: the host file does not have %s", w.From, w.Name)
		}
		h := all[at]
		h.Slots = cmp.Or(w.Slots, h.Slots)
		h.From = w.From
		selected = append(selected, h)
	}
	return selected, nil
}
