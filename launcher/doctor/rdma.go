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
			"rdma-port", "rdma",
			"ports of RDMA adapters that are down, or wait for a subnet manager",
			"NCCL leaves them out without a word, and the job is slower.",
			portState,
		},
		{
			"rdma-count", "rdma",
			"whether all hosts have as many RDMA ports that are up",
			"Hosts of one job with unequal numbers of adapters run at the pace of the fewest, or NCCL refuses ('mixed " +
				"local Net device counts').",
			func(c *Cluster) []Finding {
				if !c.some(func(h *Host) bool { return len(activePorts(h)) > 0 }) {
					return nil
				}
				return unlike(Warning, func(h *Host) string {
					if h.Machine.CPUs.Len() == 0 { // it was not asked in time: every host has CPUs
						return ""
					}
					return counted(len(activePorts(h)), "active RDMA port")
				}, "it has %s, %s %s", "/sys/class/infiniband/*/ports/*/state", "ibv_devinfo; rdma link show")(c)
			},
		},
		{
			"rdma-rate", "rdma",
			"ports that run at a lower rate, or with fewer lanes, than those of the same adapters",
			"A bad cable or transceiver costs half of the bandwidth or more, and no error tells of it.",
			portRate,
		},
		{
			"link-layer", "rdma",
			"InfiniBand and RoCE ports in one job",
			"They cannot talk to each other, and NCCL uses one kind: 'Attempted to connect incompatible devices'.",
			linkLayer,
		},
		{
			"roce-gid", "rdma",
			"a RoCE v2 address (GID) of each RoCE port that is up",
			"RoCE v1 is not routed, and without an IP address a port has no v2 one: ibv_modify_qp fails with 22 or 110.",
			each(versionTwoGID),
		},
		{
			"pkey", "rdma",
			"partition keys of InfiniBand ports",
			"Members of different partitions, and two limited members of one, cannot talk to each other.",
			partitionKeys,
		},
		{
			"rdma-firmware", "rdma",
			"whether adapters of one model have the same firmware",
			"The one that was left out of an update is often the one that fails.",
			firmware,
		},
		{
			"uverbs", "rdma",
			"whether /dev/infiniband/uverbs* can be opened",
			"A container without these files has NCCL fall back to sockets: 'NET/IB : No device found'.",
			each(openable),
		},
	}
}

func (p Port) name() string { return fmt.Sprintf("%s:%d", p.Device, p.Port) }

func (p Port) file(name string) string {
	return fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/%s", p.Device, p.Port, name)
}

// kind is the same for ports that should run at the same rate.
func (p Port) kind() string { return p.Type + "/" + p.Board + "/" + p.Layer }

// portOf is a host's active port of a name, or nil.
func portOf(h *Host, name string) *Port {
	i := slices.IndexFunc(h.RDMA, func(p Port) bool { return p.name() == name && p.Active() })
	if i < 0 {
		return nil
	}
	return &h.RDMA[i]
}

// eachPort runs a check over those RDMA ports of all hosts that take part in jobs.
func eachPort(run func(h *Host, p Port) []Finding) func(*Cluster) []Finding {
	return each(func(h *Host) (all []Finding) {
		for _, p := range realPorts(h) {
			all = append(all, run(h, p)...)
		}
		return all
	})
}

// portsUnlike compares ports of the same name over the hosts, as far as they are active.
func (c *Cluster) portsUnlike(property func(p Port) string,
	tell func(p Port, own, most, others string) []Finding,
) (all []Finding) {
	seen := map[string]bool{}
	for _, h := range c.Hosts {
		for _, port := range h.RDMA {
			name := port.name()
			if port.Virtual || seen[name] {
				continue
			}
			seen[name] = true
			all = append(all, c.differing(func(h *Host) string {
				if p := portOf(h, name); p != nil {
					return property(*p)
				}
				return ""
			}, func(h *Host, own, most, others string) []Finding {
				return tell(*portOf(h, name), own, most, others)
			})...)
		}
	}
	return all
}

// portState tells of ports that do not carry data. One that is down and unused everywhere
// is nobody's loss.
func portState(c *Cluster) []Finding {
	return eachPort(func(h *Host, p Port) []Finding {
		device := shellwords.Quote(p.Device)
		evidence := p.file("state") + " is " + p.State + ", phys_state " + p.Physical
		switch {
		case p.Active():
			return nil
		case p.State == "INIT":
			return warning("RDMA port "+p.name()+" waits for a subnet manager", evidence, "sminfo; ibstat "+device)
		}
		elsewhere := c.some(func(o *Host) bool { return portOf(o, p.name()) != nil })
		return warningIf(elsewhere || len(activePorts(h)) == 0 || nearGPU(h, p),
			"RDMA port "+p.name()+" is not up: "+cmp.Or(p.Physical, p.State), evidence, "ibstat "+device+"; rdma link show")
	})(c)
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

// portRate compares ports with the best of their kind on their host, and where all are like
// that with those of the same name on other hosts.
func portRate(c *Cluster) []Finding {
	slow := func(p Port, than string) []Finding {
		return warning(fmt.Sprintf("RDMA port %s runs at %g Gb/s, %s", p.name(), p.Gbps, than),
			p.file("rate")+" is "+p.Rate, "sudo mlxlink -d "+p.Device+"; ibstat "+p.Device)
	}
	all := eachPort(func(h *Host, p Port) []Finding {
		var best float64
		lanes := 0
		for _, o := range realPorts(h) {
			if o.Active() && o.kind() == p.kind() {
				best, lanes = max(best, o.Gbps), max(lanes, o.Width)
			}
		}
		worse := p.Type+p.Board != "" && (p.Gbps < best || p.Width < lanes)
		if !p.Active() || !worse && (p.Width != 1 || p.Layer != "InfiniBand") {
			return nil
		}
		return slow(p, fmt.Sprintf("the best of its kind %g", best))
	})(c)
	if all != nil {
		return all
	}
	return c.portsUnlike(func(p Port) string {
		if p.EFA {
			return ""
		}
		return fmt.Sprintf("%g", p.Gbps)
	}, func(p Port, _, most, others string) []Finding { return slow(p, others+" "+most) })
}

// linkLayer tells of hosts with both kinds. Where those near GPUs are of one kind the others
// are for storage, and NCCL does not choose them.
func linkLayer(c *Cluster) []Finding {
	all := each(func(h *Host) []Finding {
		var fabric, other []string
		near := map[string]bool{}
		for _, p := range realPorts(h) {
			if !p.Active() {
				continue
			}
			if nearGPU(h, p) {
				near[p.Layer] = true
			}
			if p.Layer == "Ethernet" {
				other = append(other, p.name())
			} else {
				fabric = append(fabric, p.name())
			}
		}
		if len(fabric) == 0 || len(other) == 0 || len(h.Machine.GPUs) == 0 {
			return nil
		}
		return warningIf(len(near) > 1, "InfiniBand and RoCE ports are up: "+listed(fabric)+" and "+listed(other),
			"/sys/class/infiniband/*/ports/*/link_layer",
			"export NCCL_IB_HCA=="+shellwords.Quote(strings.Join(fabric, ",")))
	})(c)
	return append(all, c.portsUnlike(func(p Port) string { return p.Layer },
		func(p Port, own, most, others string) []Finding {
			return failure(fmt.Sprintf("RDMA port %s is %s, on %s %s", p.name(), own, others, most),
				"/sys/class/infiniband/"+p.Device+"/ports/*/link_layer", "ibv_devinfo | grep -E 'hca_id|link_layer'")
		})...)
}

// partitionKeys: the highest bit of a key is that of a full member.
func partitionKeys(c *Cluster) []Finding {
	const full = 0x8000
	keys := func(p Port) string {
		if !p.Active() || p.Layer == "Ethernet" {
			return ""
		}
		var words []string
		for _, k := range p.PKeys {
			words = append(words, fmt.Sprintf("0x%04x", k))
		}
		return strings.Join(words, " ")
	}
	all := eachPort(func(_ *Host, p Port) []Finding {
		if keys(p) == "" || slices.ContainsFunc(p.PKeys, func(k int) bool { return k&full != 0 }) {
			return nil
		}
		return warning("InfiniBand port "+p.name()+
			" is a limited member of its partitions: it does not reach others of that kind", p.file("pkeys")+": "+keys(p),
			"smpquery pkeys -D 0 # the subnet manager's partitions.conf says who is a full member")
	})(c)
	if all != nil {
		return all
	}
	return unlike(Note, func(h *Host) (set string) {
		for _, p := range realPorts(h) {
			set = cmp.Or(set, keys(p))
		}
		return set
	}, "its InfiniBand partitions are %s, on %s %s", "/sys/class/infiniband/*/ports/*/pkeys",
		"grep . /sys/class/infiniband/*/ports/*/pkeys/* | grep -v 0x0000")(c)
}

func firmware(c *Cluster) []Finding {
	versions := map[string][]string{}
	eachPort(func(_ *Host, p Port) []Finding {
		if p.Board != "" && p.Firmware != "" && !slices.Contains(versions[p.Board], p.Firmware) {
			versions[p.Board] = append(versions[p.Board], p.Firmware)
		}
		return nil
	})(c)
	for _, all := range versions {
		slices.SortFunc(all, compareVersions)
	}
	return eachPort(func(_ *Host, p Port) []Finding {
		all := versions[p.Board]
		if p.Firmware == "" || len(all) < 2 || p.Firmware == all[len(all)-1] {
			return nil
		}
		return note(fmt.Sprintf("adapters %s have firmware of several versions: %s", p.Board, strings.Join(all, ", ")),
			"/sys/class/infiniband/*/fw_ver", "ibstat | grep -E '^CA|Firmware'")
	})(c)
}

// compareVersions orders versions by their numbers: 28.9.1002 is older than 28.39.1002.
func compareVersions(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		n, errN := strconv.Atoi(x)
		m, errM := strconv.Atoi(y)
		if errN != nil || errM != nil {
			return strings.Compare(x, y)
		}
		return cmp.Compare(n, m)
	})
}

func versionTwoGID(h *Host) []Finding {
	var without []string
	severity := Warning
	for _, p := range activePorts(h) {
		if p.Layer == "InfiniBand" {
			severity = Note // RoCE is for something else: a cloud's machines have such
		}
		if p.Layer == "Ethernet" && p.GID < 0 && !p.EFA {
			without = append(without, p.name())
		}
	}
	return about(severity, without, "RoCE port has no RoCE v2 address", "RoCE ports have no RoCE v2 address",
		"/sys/class/infiniband/*/ports/*/gid_attrs/types",
		"rdma link show; ip -br addr # its network interface needs an IP address")
}

func openable(h *Host) []Finding {
	var refused []string
	why := ""
	for _, p := range h.RDMA {
		if p.Refused != "" && !p.Virtual && !slices.Contains(refused, p.Device) {
			refused = append(refused, p.Device)
			why = cmp.Or(p.Verbs, "/dev/infiniband") + ": " + p.Refused
		}
	}
	return about(Error, refused, "RDMA device cannot be opened", "RDMA devices cannot be opened", why,
		choose(h, "docker run --device /dev/infiniband --cap-add IPC_LOCK --ulimit memlock=-1 ...",
			"sudo modprobe ib_uverbs; ls -l /dev/infiniband"))
}
