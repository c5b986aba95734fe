// Package hosts parses where ranks may run: the lists of -H and --host, and the host files of Open MPI, MPICH and
// DeepSpeed.
//
// A list is what mpirun takes, with Slurm's ranges: names separated by commas, each with an optional number of slots.
//
//	node1                one host, number of slots open
//	node1:4,node2:4      four slots each
//	node1,node1          the same as node1:2
//	node[01-16,20]:8     seventeen hosts, eight slots each
//	node1:*              one slot for each core, as in Open MPI
//	alice@node2:2222:4   user and port of the login, before the slots
//	[::1]:3, ::1         an IPv6 address needs brackets before numbers
//
// A single number is the slots, as in every mpirun. A port needs slots behind it (node2:2222:1), or belongs in a host
// file (port=2222) or in the configuration of ssh.
//
// A file has one host, or one range, on a line:
//
//	# comment
//	node1                          all
//	node2 slots=4 max-slots=8      Open MPI; DeepSpeed without max-slots
//	node3:4 ifhn=node3-ib          MPICH
//	alice@node4 port=2222          Open MPI
//
// A host that is named twice has the sum of its slots. The package reads no file and resolves no name.
package hosts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Host is one requested host.
type Host struct {
	// Name is the host's name or address as the user wrote it, without user, port and brackets.
	Name string
	// Slots is the number of ranks to place there; 0: open.
	Slots int
	// CoreSlots means one slot for each core. Slots is then 0 until the cores are counted.
	CoreSlots bool
	// MaxSlots limits the number of ranks; 0: no limit.
	MaxSlots int
	// User and Port are for the login; "" and 0: default.
	User string
	Port int
	// Address is how other nodes reach this one (Hydra's ifhn=); "": by Name.
	Address string
	// Here marks the host that gorun runs on, which needs no login.
	Here bool
	// From is the first source of the host: "-H node1:4" or "hosts.txt:3".
	From string
}

// IsLoopback reports whether the name means every host itself: localhost, ::1 or an address in 127.0.0.0/8.
func (h Host) IsLoopback() bool {
	name := strings.ToLower(h.Name)
	return name == "localhost" || name == "::1" || strings.HasPrefix(name, "127.") &&
		strings.Trim(name, "0123456789.") == ""
}

// TotalSlots returns the number of slots of all hosts, or 0 if a host leaves its number open.
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

// checkLogins refuses a name with several users or ports, which may be several machines behind one address.
func checkLogins(all []Host) error {
	first := make(map[string]Host, len(all))
	for _, h := range all {
		one := first[h.Name]
		user, port := cmp.Or(one.User, h.User), cmp.Or(one.Port, h.Port)
		if user != cmp.Or(h.User, user) || port != cmp.Or(h.Port, port) {
			return fmt.Errorf("%s: %s and %s are one host with two logins; if they are two machines, give each a name in "+
				"~/.ssh/config", h.From, login(user, h.Name, port), login(h.User, h.Name, h.Port))
		}
		first[h.Name] = Host{User: user, Port: port}
	}
	return nil
}

func login(user, name string, port int) string {
	text := strings.TrimPrefix(user+"@"+name, "@")
	if port != 0 {
		text += fmt.Sprintf(":%d", port)
	}
	return text
}

// Merge adds up hosts with the same name, in the order of their first entries. An entry without a number counts as one
// slot if its name repeats, as in Open MPI and Hydra.
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

// Sum adds up hosts that are one machine under different names, and keeps the first name. all must not be empty.
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

// Select returns the hosts of wanted, completed from all: a list chooses from a host file. Slots, user and port in
// wanted override those in all. Hosts that all lacks are an error.
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
		return nil, fmt.Errorf("%s: the host file does not have %s", from, NodeList(missing))
	}
	return selected, nil
}

// Exclude returns all hosts except names, and the names that no host has. A loopback name, and one that isHere accepts,
// means the host with Here.
func Exclude(all []Host, names []string, isHere func(name string) bool) (left []Host, unknown []string) {
	excluded := make(map[string]bool, len(names))
	for _, name := range names {
		at := slices.IndexFunc(all, func(h Host) bool { return h.Name == name })
		if at < 0 && (Host{Name: name}.IsLoopback() || isHere(name)) {
			at = slices.IndexFunc(all, func(h Host) bool { return h.Here })
		}
		if at < 0 {
			unknown = append(unknown, name)
			continue
		}
		excluded[all[at].Name] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(h Host) bool { return excluded[h.Name] }), unknown
}
