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
			"RDMA ports that are down, or wait for a subnet manager",
			"NCCL skips them silently, and the job is slower.",
			portState,
		},
		{
			"rdma-count", "rdma",
			"whether all hosts have as many RDMA ports that are up",
			"A job is as fast as the host with the fewest adapters, or NCCL refuses to run ('mixed local Net device counts').",
			func(c *Cluster, r report) {
				unlike(Warning, func(h *Host) string {
					if h.Machine.CPUs.Len() == 0 { // not inspected in time
						return ""
					}
					return counted(len(activePorts(h)), "active RDMA port")
				}, "it has %s, %s %s", "/sys/class/infiniband/*/ports/*/state", "ibv_devinfo; rdma link show")(c, r)
			},
		},
		{
			"rdma-rate", "rdma",
			"ports that run at a lower rate, or with fewer lanes, than those of the same adapters",
			"A bad cable or transceiver costs half of the bandwidth or more, without an error.",
			portRate,
		},
		{
			"link-layer", "rdma",
			"InfiniBand and RoCE ports in one job",
			"They cannot connect to each other, and NCCL uses only one kind: 'Attempted to connect incompatible devices'.",
			linkLayer,
		},
		{
			"roce-gid", "rdma",
			"a RoCE v2 address (GID) of each RoCE port that is up",
			"RoCE v1 is not routable, and a port without an IP address has no v2 address: ibv_modify_qp fails with 22 or 110.",
			each(versionTwoGID),
		},
		{
			"pkey", "rdma",
			"partition keys of InfiniBand ports",
			"Members of different partitions, and two limited members of one, cannot reach each other.",
			partitionKeys,
		},
		{
			"rdma-firmware", "rdma",
			"whether adapters of one model have the same firmware",
			"An adapter that missed an update is often the one that fails.",
			firmware,
		},
		{
			"uverbs", "rdma",
			"whether /dev/infiniband/uverbs* can be opened",
			"In a container without these files NCCL falls back to sockets: 'NET/IB : No device found'.",
			each(openable),
		},
	}
}

func (p Port) name() string { return fmt.Sprintf("%s:%d", p.Device, p.Port) }

func (p Port) file(name string) string {
	return fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/%s", p.Device, p.Port, name)
}

// kind identifies ports that should run at the same rate.
func (p Port) kind() string { return p.Type + "/" + p.Board + "/" + p.Layer }

// portOf returns a host's active port with a name, or nil.
func portOf(h *Host, name string) *Port {
	i := slices.IndexFunc(h.RDMA, func(p Port) bool { return p.name() == name && p.Active() })
	if i < 0 {
		return nil
	}
	return &h.RDMA[i]
}

// eachPort makes a check of a function that checks one real RDMA port.
func eachPort(check func(h *Host, p Port, r report)) func(*Cluster, report) {
	return each(func(h *Host, r report) {
		for _, p := range realPorts(h) {
			check(h, p, r)
		}
	})
}

// differingPorts compares the active ports of the same name over the hosts, like differing.
func (c *Cluster) differingPorts(r report, property func(p Port) string,
	add func(p Port, r report, own, most, others string),
) {
	seen := map[string]bool{}
	for _, h := range c.Hosts {
		for _, port := range h.RDMA {
			name := port.name()
			if port.Virtual || seen[name] {
				continue
			}
			seen[name] = true
			differing(c, r, func(h *Host) string {
				if p := portOf(h, name); p != nil {
					return property(*p)
				}
				return ""
			}, func(h *Host, r report, own, most, others string) {
				add(*portOf(h, name), r, own, most, others)
			})
		}
	}
}

// portState reports ports that do not carry data. A port that is down on all hosts is probably unused.
func portState(c *Cluster, r report) {
	eachPort(func(h *Host, p Port, r report) {
		device := shellwords.Quote(p.Device)
		evidence := p.file("state") + " is " + p.State + ", phys_state " + p.Physical
		switch {
		case p.Active():
		case p.State == "INIT":
			r.warn("RDMA port "+p.name()+" waits for a subnet manager", evidence, "sminfo; ibstat "+device)
		default:
			elsewhere := c.any(func(o *Host) bool { return portOf(o, p.name()) != nil })
			r.warnIf(elsewhere || len(activePorts(h)) == 0 || nearGPU(h, p),
				"RDMA port "+p.name()+" is not up: "+cmp.Or(p.Physical, p.State), evidence,
				"ibstat "+device+"; rdma link show")
		}
	})(c, r)
}

// nearGPU reports whether a port's adapter shares a PCIe switch with a GPU, as adapters for GPU traffic do.
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

// portRate compares ports with the best of their kind on the same host and then, if all are equal, with the ports of
// the same name on other hosts.
func portRate(c *Cluster, r report) {
	slow := func(p Port, r report, than string) {
		r.warn(fmt.Sprintf("RDMA port %s runs at %g Gb/s, %s", p.name(), p.Gbps, than),
			p.file("rate")+" is "+p.Rate, "sudo mlxlink -d "+p.Device+"; ibstat "+p.Device)
	}
	eachPort(func(h *Host, p Port, r report) {
		var best float64
		lanes := 0
		for _, o := range realPorts(h) {
			if o.Active() && o.kind() == p.kind() {
				best, lanes = max(best, o.Gbps), max(lanes, o.Width)
			}
		}
		worse := p.Type+p.Board != "" && (p.Gbps < best || p.Width < lanes)
		if p.Active() && (worse || p.Width == 1 && p.Layer == "InfiniBand") {
			slow(p, r, fmt.Sprintf("the best of its kind %g", best))
		}
	})(c, r)
	if r.any() {
		return
	}
	c.differingPorts(r, func(p Port) string {
		if p.EFA {
			return ""
		}
		return fmt.Sprintf("%g", p.Gbps)
	}, func(p Port, r report, _, most, others string) { slow(p, r, others+" "+most) })
}

// linkLayer reports hosts with both kinds. If the ports near GPUs are of one kind, the others are for storage and NCCL
// does not use them.
func linkLayer(c *Cluster, r report) {
	each(func(h *Host, r report) {
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
			return
		}
		r.warnIf(len(near) > 1, "InfiniBand and RoCE ports are up: "+listed(fabric)+" and "+listed(other),
			"/sys/class/infiniband/*/ports/*/link_layer",
			"export NCCL_IB_HCA=="+shellwords.Quote(strings.Join(fabric, ",")))
	})(c, r)
	of := func(p Port) string { return p.Layer }
	c.differingPorts(r, of, func(p Port, r report, own, most, others string) {
		r.fail(fmt.Sprintf("RDMA port %s is %s, on %s %s", p.name(), own, others, most),
			"/sys/class/infiniband/"+p.Device+"/ports/*/link_layer", "ibv_devinfo | grep -E 'hca_id|link_layer'")
	})
}

// partitionKeys checks the highest bit of keys, which marks a full member.
func partitionKeys(c *Cluster, r report) {
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
	eachPort(func(_ *Host, p Port, r report) {
		if keys(p) == "" || slices.ContainsFunc(p.PKeys, func(k int) bool { return k&full != 0 }) {
			return
		}
		r.warn("InfiniBand port "+p.name()+
			" is a limited member of its partitions: it does not reach others of that kind", p.file("pkeys")+": "+keys(p),
			"smpquery pkeys -D 0 # the subnet manager's partitions.conf says who is a full member")
	})(c, r)
	if r.any() {
		return
	}
	unlike(Note, func(h *Host) (set string) {
		for _, p := range realPorts(h) {
			set = cmp.Or(set, keys(p))
		}
		return set
	}, "its InfiniBand partitions are %s, on %s %s", "/sys/class/infiniband/*/ports/*/pkeys",
		"grep . /sys/class/infiniband/*/ports/*/pkeys/* | grep -v 0x0000")(c, r)
}

func firmware(c *Cluster, r report) {
	versions := map[string][]string{}
	eachPort(func(_ *Host, p Port, _ report) {
		if p.Board != "" && p.Firmware != "" && !slices.Contains(versions[p.Board], p.Firmware) {
			versions[p.Board] = append(versions[p.Board], p.Firmware)
		}
	})(c, r)
	for _, all := range versions {
		slices.SortFunc(all, compareVersions)
	}
	eachPort(func(_ *Host, p Port, r report) {
		all := versions[p.Board]
		if p.Firmware != "" && len(all) > 1 && p.Firmware != all[len(all)-1] {
			r.note(fmt.Sprintf("adapters %s have firmware of several versions: %s", p.Board, strings.Join(all, ", ")),
				"/sys/class/infiniband/*/fw_ver", "ibstat | grep -E '^CA|Firmware'")
		}
	})(c, r)
}

// compareVersions orders versions by their numbers: 28.9.1002 comes before 28.39.1002.
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

func versionTwoGID(h *Host, r report) {
	var without []string
	severity := Warning
	for _, p := range activePorts(h) {
		if p.Layer == "InfiniBand" {
			severity = Note // RoCE is not for jobs, as on some cloud instances
		}
		if p.Layer == "Ethernet" && p.GID < 0 && !p.EFA {
			without = append(without, p.name())
		}
	}
	r.list(severity, without, "RoCE port has no RoCE v2 address", "RoCE ports have no RoCE v2 address",
		"/sys/class/infiniband/*/ports/*/gid_attrs/types",
		"rdma link show; ip -br addr # its network interface needs an IP address")
}

func openable(h *Host, r report) {
	var refused []string
	why := ""
	for _, p := range h.RDMA {
		if p.Refused != "" && !p.Virtual && !slices.Contains(refused, p.Device) {
			refused = append(refused, p.Device)
			why = cmp.Or(p.Verbs, "/dev/infiniband") + ": " + p.Refused
		}
	}
	r.list(Error, refused, "RDMA device cannot be opened", "RDMA devices cannot be opened", why,
		choose(h, "docker run --device /dev/infiniband --cap-add IPC_LOCK --ulimit memlock=-1 ...",
			"sudo modprobe ib_uverbs; ls -l /dev/infiniband"))
}
