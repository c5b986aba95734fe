// Package hosts knows the ways in which users say where ranks may run: the lists
// behind -H and --host, and the host files of Open MPI, MPICH and DeepSpeed, whose
// union it reads.
//
// A list is what mpirun takes, with Slurm's ranges: names separated by commas, each
// with an optional number of slots.
//
//	node1                one host, number of slots not said
//	node1:4,node2:4      four slots each
//	node1,node1          the same as node1:2
//	node[01-16,20]:8     seventeen hosts, eight slots each
//	node1:*              as many as it has cores, as to Open MPI
//	alice@node2:2222:4   who logs in, and at which port, before the slots
//	[::1]:3, ::1         an IPv6 address needs brackets before numbers
//
// One number behind a name is the slots, as every mpirun reads it: a port has the
// slots behind it (node2:2222:1), or stands in a file (port=2222) or in the
// configuration of ssh.
//
// A file has one host, or one range, on a line:
//
//	# comment
//	node1                          all
//	node2 slots=4 max-slots=8      Open MPI; DeepSpeed without max-slots
//	node3:4 ifhn=node3-ib          MPICH
//	alice@node4 port=2222          Open MPI
//
// What is named twice has the sum of its slots. The package reads no file and
// resolves no name: text comes in, hosts go out.
package hosts

import (
	"cmp"
	"fmt"
	"strings"
)

// Host is one host of a wish.
type Host struct {
	// Name is the host's name or address as the user wrote it, without user and
	// port. An IPv6 address stands without brackets.
	Name string
	// Slots is the number of ranks that the host is meant to take; 0: not said.
	Slots int
	// CoreSlots says that it takes as many as it has cores; Slots is 0 until somebody has
	// counted them.
	CoreSlots bool
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
	return name == "localhost" || name == "::1" || strings.HasPrefix(name, "127.") &&
		strings.Trim(name, "0123456789.") == ""
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
	place := make(map[string]int, len(all))
	for _, h := range all {
		at, found := place[h.Name]
		if !found {
			place[h.Name] = len(merged)
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
	if a.CoreSlots = a.CoreSlots || b.CoreSlots; a.CoreSlots {
		a.Slots = 0
	}
	if a.MaxSlots > 0 && b.MaxSlots > 0 {
		a.MaxSlots += b.MaxSlots
	} else {
		a.MaxSlots = 0
	}
	a.User, a.Port, a.Address = cmp.Or(a.User, b.User), cmp.Or(a.Port, b.Port), cmp.Or(a.Address, b.Address)
	return a
}

// Select returns the hosts of wanted, each with what all says about it: where a
// list and a host file are given, the list chooses from the file. What wanted says
// of slots, user and port counts more than the file. Hosts that all lacks are an
// error.
func Select(all, wanted []Host) ([]Host, error) {
	place := make(map[string]int, len(all))
	for i, h := range all {
		place[h.Name] = i
	}
	var (
		selected = make([]Host, 0, len(wanted))
		missing  []string
		from     string
	)
	for _, w := range wanted {
		at, found := place[w.Name]
		if !found {
			missing, from = append(missing, w.Name), cmp.Or(from, w.From)
			continue
		}
		h := all[at]
		if w.Slots > 0 || w.CoreSlots {
			h.Slots, h.CoreSlots = 0, w.CoreSlots
		}
		h.Slots, h.User, h.Port = cmp.Or(w.Slots, h.Slots), cmp.Or(w.User, h.User), cmp.Or(w.Port, h.Port)
		h.From = w.From
		selected = append(selected, h)
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s: the host file does not have %s", from, Fold(missing))
	}
	return selected, nil
}

// Exclude returns the hosts that names leave, and the names that none of all has.
// Those that isHere knows, and those that mean it by themselves, are the host with
// Here.
func Exclude(all []Host, names []string, isHere func(name string) bool) (left []Host, unknown []string) {
	gone := make([]bool, len(all))
	place := make(map[string]int, len(all))
	here := -1
	for i, h := range all {
		place[h.Name] = i
		if h.Here {
			here = i
		}
	}
	for _, name := range names {
		at, found := place[name]
		if !found && here >= 0 && (Host{Name: name}.IsLoopback() || isHere(name)) {
			at, found = here, true
		}
		if !found {
			unknown = append(unknown, name)
			continue
		}
		gone[at] = true
	}
	for i, h := range all {
		if !gone[i] {
			left = append(left, h)
		}
	}
	return left, unknown
}
