package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/internal/shellwords"
	"gorun/placement"
)

func rdmaChecks() []Check {
	return []Check{
		{
			ID: "rdma-port", Group: "rdma",
			What: "ports of RDMA adapters that are down, or wait for a subnet manager",
			Why:  "NCCL leaves them out without a word, and the job is slower.",
			Run:  portState,
		},
		{
			ID: "rdma-count", Group: "rdma",
			What: "whether all hosts have as many RDMA ports that are up",
			Why: "Hosts of one job with unequal numbers of adapters run at the pace of the fewest, or NCCL refuses ('mixed " +
				"local Net device counts').",
			Run: func(c *Cluster) []Finding {
				count := func(h *Host) string {
					if !h.devicesKnown() {
						return ""
					}
					return counted(len(activePorts(h)), "active RDMA port")
				}
				if !c.some(func(h *Host) bool { return len(activePorts(h)) > 0 }) {
					return nil
				}
				return c.differing(count, func(h *Host, own, most string, others int) Finding {
					return Finding{
						Severity: Warning, Text: fmt.Sprintf("it has %s, %s %s", own, theOthers(others), most),
						Evidence: "/sys/class/infiniband/*/ports/*/state", Fix: "ibv_devinfo; rdma link show",
					}
				})
			},
		},
		{
			ID: "rdma-rate", Group: "rdma",
			What: "ports that run at a lower rate, or with fewer lanes, than those of the same adapters",
			Why:  "A bad cable or transceiver costs half of the bandwidth or more, and no error tells of it.",
			Run:  portRate,
		},
		{
			ID: "link-layer", Group: "rdma",
			What: "InfiniBand and RoCE ports in one job",
			Why:  "They cannot talk to each other, and NCCL uses one kind: 'Attempted to connect incompatible devices'.",
			Run:  linkLayer,
		},
		{
			ID: "roce-gid", Group: "rdma",
			What: "a RoCE v2 address (GID) of each RoCE port that is up",
			Why:  "RoCE v1 is not routed, and without an IP address a port has no v2 one: ibv_modify_qp fails with 22 or 110.",
			Run:  each(versionTwoGID),
		},
		{
			ID: "pkey", Group: "rdma",
			What: "partition keys of InfiniBand ports",
			Why:  "Members of different partitions, and two limited members of one, cannot talk to each other.",
			Run:  partitionKeys,
		},
		{
			ID: "rdma-firmware", Group: "rdma",
			What: "whether adapters of one model have the same firmware",
			Why:  "The one that was left out of an update is often the one that fails.",
			Run:  firmware,
		},
		{
			ID: "uverbs", Group: "rdma",
			What: "whether /dev/infiniband/uverbs* can be opened",
			Why:  "A container without these files has NCCL fall back to sockets: 'NET/IB : No device found'.",
			Run:  each(openable),
		},
	}
}

func portName(p Port) string { return fmt.Sprintf("%s:%d", p.Device, p.Port) }

// portOf is a host's port of the same name, or nil.
func portOf(h *Host, p Port) *Port {
	for i, q := range h.RDMA {
		if q.Device == p.Device && q.Port == p.Port {
			return &h.RDMA[i]
		}
	}
	return nil
}

// portState tells of ports that do not carry data. One that is down and unused everywhere
// is nobody's loss.
func portState(c *Cluster) (all []Finding) {
	for _, h := range c.Hosts {
		for _, p := range realPorts(h) {
			if p.Active() {
				continue
			}
			f := Finding{
				Hosts: []string{h.Name}, Severity: Note, Text: fmt.Sprintf("RDMA port %s is not up: %s", portName(p),
					cmp.Or(p.Physical, p.State)),
				Evidence: fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/state is %s, phys_state %s", p.Device, p.Port, p.State,
					p.Physical), Fix: "ibstat " + shellwords.Quote(p.Device) + "; rdma link show",
			}
			elsewhere := slices.ContainsFunc(c.Hosts, func(o *Host) bool { q := portOf(o, p); return q != nil && q.Active() })
			switch {
			case p.State == "INIT":
				f.Severity, f.Text = Warning, fmt.Sprintf("RDMA port %s waits for a subnet manager", portName(p))
				f.Fix = "sminfo; ibstat " + shellwords.Quote(p.Device)
			case elsewhere, len(activePorts(h)) == 0, nearGPU(h, p):
				f.Severity = Warning
			}
			all = append(all, f)
		}
	}
	return all
}

// nearGPU reports whether a port's adapter is below one PCIe switch with a GPU, as those
// are that are there for it.
func nearGPU(h *Host, p Port) bool {
	if h.Machine.Topology == nil {
		return false
	}
	for _, nic := range h.Machine.Topology.NICs {
		if nic.Name != p.Device || nic.Bus == nil || len(nic.Bus.Bridges) < 2 {
			continue
		}
		return slices.ContainsFunc(h.Machine.GPUs, func(g placement.GPU) bool {
			return g.Bus != nil && len(g.Bus.Bridges) > 1 && g.Bus.Bridges[0] == nic.Bus.Bridges[0]
		})
	}
	return false
}

func portRate(c *Cluster) (all []Finding) {
	for _, h := range c.Hosts {
		best, lanes := map[string]float64{}, map[string]int{}
		for _, p := range realPorts(h) {
			if kind := p.Type + "/" + p.Board + "/" + p.Layer; p.Active() {
				best[kind], lanes[kind] = max(best[kind], p.Gbps), max(lanes[kind], p.Width)
			}
		}
		for _, p := range realPorts(h) {
			kind := p.Type + "/" + p.Board + "/" + p.Layer
			worse := p.Type+p.Board != "" && (p.Gbps < best[kind] || p.Width < lanes[kind])
			if p.Active() && (worse || p.Width == 1 && p.Layer == "InfiniBand") {
				all = append(all, slowPort(h, p, fmt.Sprintf("the best of its kind %g", best[kind])))
			}
		}
	}
	if all != nil {
		return all
	}
	names := map[string]Port{}
	var order []string
	for _, h := range c.Hosts {
		for _, p := range realPorts(h) {
			if _, known := names[portName(p)]; !known {
				names[portName(p)] = p
				order = append(order, portName(p))
			}
		}
	}
	for _, name := range order {
		rate := func(h *Host) string {
			if p := portOf(h, names[name]); p != nil && p.Active() {
				return fmt.Sprintf("%g", p.Gbps)
			}
			return ""
		}
		all = append(all, c.differing(rate, func(h *Host, _, most string, others int) Finding {
			return slowPort(h, *portOf(h, names[name]), theOthers(others)+" "+most)
		})...)
	}
	return all
}

func slowPort(h *Host, p Port, than string) Finding {
	return Finding{
		Severity: Warning, Hosts: []string{h.Name}, Text: fmt.Sprintf("RDMA port %s runs at %g Gb/s, %s", portName(p),
			p.Gbps, than),
		Evidence: fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/rate is %s", p.Device, p.Port, p.Rate),
		Fix:      "sudo mlxlink -d " + p.Device + "; ibstat " + p.Device,
	}
}

// linkLayer tells of hosts with both kinds. Where those near GPUs are of one kind the others
// are for storage, and NCCL does not choose them.
func linkLayer(c *Cluster) (all []Finding) {
	for _, h := range c.Hosts {
		var fabric, other []string
		near := map[string]bool{}
		for _, p := range realPorts(h) {
			if p.Active() && nearGPU(h, p) {
				near[p.Layer] = true
			}
			switch {
			case !p.Active():
			case p.Layer == "Ethernet":
				other = append(other, portName(p))
			default:
				fabric = append(fabric, portName(p))
			}
		}
		if len(fabric) == 0 || len(other) == 0 || len(h.Machine.GPUs) == 0 {
			continue
		}
		f := Finding{
			Severity: Note, Hosts: []string{h.Name}, Text: fmt.Sprintf("InfiniBand and RoCE ports are up: %s and %s",
				listed(fabric), listed(other)),
			Evidence: "/sys/class/infiniband/*/ports/*/link_layer", Fix: "export NCCL_IB_HCA==" +
				shellwords.Quote(strings.Join(fabric, ",")),
		}
		if len(near) > 1 {
			f.Severity = Warning
		}
		all = append(all, f)
	}
	seen := map[string]bool{}
	for _, h := range c.Hosts {
		for _, p := range activePorts(h) {
			if seen[portName(p)] {
				continue
			}
			seen[portName(p)] = true
			layer := func(h *Host) string {
				if q := portOf(h, p); q != nil && q.Active() {
					return q.Layer
				}
				return ""
			}
			all = append(all, c.differing(layer, func(_ *Host, own, most string, others int) Finding {
				return Finding{
					Severity: Error, Text: fmt.Sprintf("RDMA port %s is %s, %s %s", portName(p), own, onTheOthers(others), most),
					Evidence: "/sys/class/infiniband/" + p.Device + "/ports/*/link_layer",
					Fix:      "ibv_devinfo | grep -E 'hca_id|link_layer'",
				}
			})...)
		}
	}
	return all
}

// partitionKeys: the highest bit of a key is that of a full member.
func partitionKeys(c *Cluster) (all []Finding) {
	const full = 0x8000
	for _, h := range c.Hosts {
		for _, p := range realPorts(h) {
			if !p.Active() || p.Layer == "Ethernet" || p.PKeys == nil {
				continue
			}
			evidence := fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/pkeys: %s", p.Device, p.Port, keys(p))
			if !slices.ContainsFunc(p.PKeys, func(k int) bool { return k&full != 0 }) {
				all = append(all, Finding{
					Severity: Warning, Hosts: []string{h.Name}, Text: "InfiniBand port " + portName(p) +
						" is a limited member of its partitions: it does not reach others of that kind", Evidence: evidence,
					Fix: "smpquery pkeys -D 0 # the subnet manager's partitions.conf says who is a full member",
				})
			}
		}
	}
	set := func(h *Host) string {
		for _, p := range realPorts(h) {
			if p.Active() && p.Layer != "Ethernet" && p.PKeys != nil {
				return keys(p)
			}
		}
		return ""
	}
	if all != nil {
		return all
	}
	return c.differing(set, func(h *Host, own, most string, others int) Finding {
		return Finding{
			Severity: Note, Text: fmt.Sprintf("its InfiniBand partitions are %s, %s %s", own,
				onTheOthers(others), most), Evidence: "/sys/class/infiniband/*/ports/*/pkeys",
			Fix: "grep . /sys/class/infiniband/*/ports/*/pkeys/* | grep -v 0x0000",
		}
	})
}

func keys(p Port) string {
	var words []string
	for _, k := range p.PKeys {
		words = append(words, fmt.Sprintf("0x%04x", k))
	}
	return strings.Join(words, " ")
}

func firmware(c *Cluster) (all []Finding) {
	versions := map[string][]string{}
	for _, h := range c.Hosts {
		for _, p := range realPorts(h) {
			if p.Board != "" && p.Firmware != "" && !slices.Contains(versions[p.Board], p.Firmware) {
				versions[p.Board] = append(versions[p.Board], p.Firmware)
			}
		}
	}
	for _, board := range sortedKeys(versions) {
		if len(versions[board]) < 2 {
			continue
		}
		slices.SortFunc(versions[board], compareVersions)
		newest := versions[board][len(versions[board])-1]
		for _, h := range c.Hosts {
			if slices.ContainsFunc(realPorts(h), func(p Port) bool {
				return p.Board == board && p.Firmware != "" && p.Firmware != newest
			}) {
				all = append(all, Finding{
					Severity: Note, Hosts: []string{h.Name}, Text: fmt.Sprintf("adapters %s have firmware of several versions: %s",
						board, strings.Join(versions[board], ", ")),
					Evidence: "/sys/class/infiniband/*/fw_ver", Fix: "ibstat | grep -E '^CA|Firmware'",
				})
			}
		}
	}
	return all
}

// compareVersions orders versions by their numbers: 28.9.1002 is older than 28.39.1002.
func compareVersions(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		n, errN := strconv.Atoi(x)
		m, errM := strconv.Atoi(y)
		order := cmp.Compare(n, m)
		if errN != nil || errM != nil {
			order = strings.Compare(x, y)
		}
		if order != 0 {
			return order
		}
	}
	return 0
}

func versionTwoGID(h *Host) (all []Finding) {
	var without []string
	for _, p := range realPorts(h) {
		if p.Active() && p.Layer == "Ethernet" && p.GID < 0 {
			without = append(without, portName(p))
		}
	}
	if without == nil {
		return nil
	}
	severity := Warning
	if slices.ContainsFunc(activePorts(h), func(p Port) bool { return p.Layer == "InfiniBand" }) {
		severity = Note // it is for something else: a cloud's machines have such
	}
	return []Finding{{
		Severity: severity, Text: plural(len(without), "RoCE port has", "RoCE ports have") + " no RoCE v2 address: " +
			listed(without), Evidence: "/sys/class/infiniband/*/ports/*/gid_attrs/types",
		Fix: "rdma link show; ip -br addr # its network interface needs an IP address",
	}}
}

func openable(h *Host) (all []Finding) {
	var refused []string
	why := ""
	for _, p := range h.RDMA {
		if p.Refused != "" && !p.Virtual && !slices.Contains(refused, p.Device) {
			refused = append(refused, p.Device)
			why = cmp.Or(p.Verbs, "/dev/infiniband") + ": " + p.Refused
		}
	}
	if refused == nil {
		return nil
	}
	return []Finding{{
		Severity: Error, Text: plural(len(refused), "RDMA device", "RDMA devices") + " cannot be opened: " +
			listed(refused), Evidence: why,
		Fix: choose(h, "docker run --device /dev/infiniband --cap-add IPC_LOCK --ulimit memlock=-1 ...",
			"sudo modprobe ib_uverbs; ls -l /dev/infiniband"),
	}}
}
