package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/env"
	"gorun/env/nccl"
	"gorun/placement"
)

// tunedRules are the settings of NCCL, RCCL and Gloo. They follow NCCL's user guide and source at 2.30.7; see
// docs/reference/nccl.md for each variable. No rule forces an algorithm or a protocol. No rule sets a default,
// which would override a configuration file.
func tunedRules() []*rule {
	return slices.Concat(
		tuned(Helps, "NCCL",
			given("NCCL_DEBUG", "`WARN`", "NCCL reports the cause of a failure, at no cost", ofNode, always("WARN")),
			given("NCCL_RAS_ADDR", "localhost and a port of this job's own; unset beside `NCCL_RAS_ENABLE=0`",
				"jobs on one host must not share port 28028, at which NCCL reports the state of its ranks", wholeJob,
				func(p view) string { return only(!p.hasValue("NCCL_RAS_ENABLE", "0"), p.in.RASAddr) }),
		),
		tuned(Needed, "NCCL",
			given("NCCL_SOCKET_IFNAME",
				"with several nodes `=` and the interface that the others reach the node on; `=lo` on one host that has GPUs "+
					"and no other", "NCCL often selects an interface that other nodes do not reach", ofNode,
				func(p view) string { return p.socketInterface("=") }).becauseOf(view.interfaceReason),
		),
		tuned(Needed, "PyTorch",
			given("GLOO_SOCKET_IFNAME",
				"with several nodes the interface that the others reach the node on; `lo` on one host that has GPUs and no other",
				"Gloo uses the host's name, which often resolves to 127.0.1.1", ofNode,
				func(p view) string { return p.socketInterface("") }),
			given("TP_SOCKET_IFNAME", "with several nodes the interface that the others reach the node on",
				"TensorPipe (torch.distributed.rpc) uses the host's name, too", ofNode,
				func(p view) string { return only(len(p.in.Nodes) > 1, p.node().Interface) }),
		),
		tuned(Needed, "NCCL",
			given("NCCL_SOCKET_FAMILY", "`AF_INET6` where the nodes reach each other by IPv6 addresses",
				"the nodes reach each other by IPv6; NCCL takes the first address that an interface has", wholeJob,
				func(p view) string { return only(p.onlyIPv6(), "AF_INET6") }),
			given("NCCL_IB_HCA",
				"with several nodes that have GPUs `=` and the RDMA ports to use, where active ones have to be left out: "+
					"Ethernet ports beside InfiniBand, ports of a tenth of the speed",
				"NCCL takes all active ports, and fails where InfiniBand and Ethernet are mixed", ofNode,
				view.rdmaPorts).becauseOf(view.rdmaReason),
			given("NCCL_IB_ADDR_FAMILY", "`AF_INET6` where the RDMA ports over Ethernet of all hosts have IPv6 addresses alone",
				"otherwise NCCL looks for an IPv4 address of the RDMA port", wholeJob, view.gidFamily),
			given("NCCL_IB_GID_INDEX",
				"with RDMA over Ethernet and an NCCL before 2.21 the index of the RoCE v2 address, where all ports of the host "+
					"have the same", "NCCL before 2.21 uses address 0, of RoCE v1", ofNode, view.gidIndex),
			given("NCCL_CUMEM_HOST_ENABLE", "`0` with NCCL 2.23 to 2.26.4 in a container that forbids set_mempolicy",
				"this NCCL cannot allocate host memory in a container without CAP_SYS_NICE (docker run --cap-add SYS_NICE)",
				wholeJob, view.cuMemHost),
		),
		tuned(Helps, "NCCL",
			given("NCCL_SOCKET_NTHREADS",
				"`4` with 100 Gb/s Ethernet and no RDMA on all hosts, but not in Amazon's or Google's cloud", fastEthernet,
				wholeJob, view.socketThreads),
			given("NCCL_NSOCKS_PERTHREAD", "as NCCL_SOCKET_NTHREADS", fastEthernet, wholeJob, view.socketThreads),
			given("NCCL_SOCKET_POLL_TIMEOUT_MSEC", "`1` with NCCL 2.29 or later on a node that has more ranks than CPUs",
				"ranks that share CPUs must not spin while NCCL starts", ofNode,
				func(p view) string { return only(p.node().Crowded && p.node().ncclSince(2, 29, 0), "1") }),
		),
		tuned(Helps, "PyTorch",
			given("TORCH_FR_BUFFER_SIZE", "`2000` on a host with GPUs and PyTorch 2.9 or later", rememberCollectives, ofNode,
				func(p view) string { return p.recorder(true, "TORCH_NCCL_TRACE_BUFFER_SIZE", "2000") }),
			given("TORCH_NCCL_TRACE_BUFFER_SIZE", "`2000` on a host with GPUs and PyTorch before 2.9", rememberCollectives,
				ofNode, func(p view) string { return p.recorder(false, "TORCH_FR_BUFFER_SIZE", "2000") }),
			given("TORCH_NCCL_DUMP_ON_TIMEOUT", "`1` on a host with GPUs and PyTorch before 2.9, as later versions do",
				"PyTorch writes its last collectives to a file when one times out", ofNode,
				func(p view) string { return p.recorder(false, "TORCH_FR_DUMP_ON_TIMEOUT", "1") }),
			given(env.VarTorchFRDumpTempFile, "files of the rank's node, as TORCH_FR_BUFFER_SIZE", keepDumps, ofNode,
				func(p view) string { return p.recorder(true, env.VarTorchNCCLDebugInfoTempFile, p.in.Dumps) }),
			given(env.VarTorchNCCLDebugInfoTempFile, "files of the rank's node, as TORCH_NCCL_TRACE_BUFFER_SIZE", keepDumps,
				ofNode, func(p view) string { return p.recorder(false, env.VarTorchFRDumpTempFile, p.in.Dumps) }),
			given(env.VarTorchNCCLDebugInfoPipeFile, "named pipes of the rank's node, on a host with GPUs and PyTorch",
				"gorun requests files of the last collectives if the job hangs", ofNode,
				func(p view) string { return only(p.node().Host.Torch != "", p.in.Dumps) }),
		),
		tuned(Helps, "ROCm",
			given("HSA_NO_SCRATCH_RECLAIM", "`1` with AMD's gfx90a (MI200) and ROCm 7.13 or later",
				"without it small messages take five times as long on MI200", ofNode, func(p view) string {
					h := &p.node().Host
					return only(slices.Contains(h.GFX, "gfx90a") && since(h.ROCm, nccl.Version{Major: 7, Minor: 13}), "1")
				}),
			given("HSA_FORCE_FINE_GRAIN_PCIE", "`1` with several of AMD's GPUs without links between them and a ROCm before 6",
				"required for access to the memory of other GPUs over PCIe", wholeJob, view.fineGrain),
		),
	)
}

const fastEthernet = "one TCP connection does not fill 100 Gb/s; NCCL's guide recommends 4 threads with 4 sockets"

// Reasons for the settings of PyTorch's flight recorder.
const (
	rememberCollectives = "PyTorch remembers its last collectives, which shows why ranks hang"
	keepDumps           = "gorun collects what PyTorch writes when a collective times out"
)

// recorder returns a setting of PyTorch's flight recorder, if the rank's PyTorch reads it (renamed: by its name since
// 2.9) and the user has not set it by its other name: of two, PyTorch warns of the old one and takes the new one.
func (p view) recorder(renamed bool, other, value string) string {
	torch := p.node().Host.Torch
	_, set := p.ofNode(p.rank)(other)
	return only(torch != "" && !set && since(torch, nccl.Version{Major: 2, Minor: 9}) == renamed, value)
}

// hasValue reports whether ranks have a variable with this value, from the user, their node or a configuration
// file.
func (b *builder) hasValue(name, value string) bool {
	if i, ok := b.index[name]; ok {
		return b.out.Common[i].Value == value
	}
	for _, own := range b.onNode {
		if i := own.find(name); i >= 0 && own[i].Value == value {
			return true
		}
	}
	return slices.ContainsFunc(b.conf, func(c map[string]nccl.Assignment) bool {
		return value != "" && c[name].Value == value
	})
}

// socketInterface returns the network interface at which other nodes reach the rank's node. NCCL treats a name
// as a prefix (eth1 matches eth10) unless = precedes it.
func (p view) socketInterface(exact string) string {
	n := p.node()
	if len(p.in.Nodes) == 1 {
		return only(n.Host.OnlyLoopback, exact+"lo")
	}
	return only(n.Interface != "", exact+n.Interface)
}

func (p view) interfaceReason() string {
	n := p.node()
	switch {
	case len(p.in.Nodes) == 1:
		return "the only interface of this host"
	case n.Address == "":
		return "other nodes reach this node there"
	}
	return "has " + n.Address + ", where other nodes reach this one"
}

// onlyIPv6 reports whether all addresses of nodes are IPv6.
func (b *builder) onlyIPv6() bool {
	return len(b.in.Nodes) > 1 && !slices.ContainsFunc(b.in.Nodes, func(n Node) bool {
		return !strings.Contains(n.Address, ":")
	})
}

// overHosts reports whether ranks with GPUs are on several nodes, so that RDMA matters.
func (b *builder) overHosts() bool {
	return len(b.in.Nodes) > 1 && !b.hasValue("NCCL_IB_DISABLE", "1") &&
		slices.ContainsFunc(b.in.Nodes, func(n Node) bool { return n.Host.GPUs })
}

// ports returns the node's active RDMA ports in hardware, and those among them that NCCL should use.
func (n *Node) ports() (active, wanted []placement.NIC) {
	fastest, infiniBand := 0.0, false
	for _, p := range n.RDMA {
		if p.Up && (p.Kind == placement.InfiniBand || p.Kind == placement.RoCE) {
			active = append(active, p)
			infiniBand = infiniBand || p.Kind == placement.InfiniBand
		}
	}
	for _, p := range active {
		if p.Kind == placement.InfiniBand || !infiniBand {
			fastest = max(fastest, p.Gbps)
		}
	}
	for _, p := range active {
		if (p.Kind == placement.InfiniBand || !infiniBand) && (p.Gbps == 0 || p.Gbps*10 > fastest) {
			wanted = append(wanted, p)
		}
	}
	return active, wanted
}

// rdmaPorts returns the ports of a rank's host if NCCL's default, all ports, is wrong.
func (p view) rdmaPorts() string {
	active, wanted := p.node().ports()
	if len(wanted) == len(active) || !p.rdma {
		return ""
	}
	names := make([]string, len(wanted))
	for i, nic := range wanted {
		names[i] = nic.Name + ":" + strconv.Itoa(nic.Port)
	}
	return "=" + strings.Join(names, ",")
}

func (p view) rdmaReason() string {
	active, wanted := p.node().ports()
	var without []string
	for _, nic := range active {
		if !slices.ContainsFunc(wanted, func(w placement.NIC) bool { return w.Name == nic.Name && w.Port == nic.Port }) {
			without = append(without, fmt.Sprintf("%s:%d (%s)", nic.Name, nic.Port, portWords(nic)))
		}
	}
	return "without " + strings.Join(without, ", ")
}

// portWords describes a port: "Ethernet, 25 Gb/s".
func portWords(p placement.NIC) string {
	words := "InfiniBand"
	if p.Kind == placement.RoCE {
		words = "Ethernet"
	}
	if p.Gbps > 0 {
		words += fmt.Sprintf(", %g Gb/s", p.Gbps)
	}
	return words
}

// roce returns the RoCE ports that NCCL uses on a node. It returns none if NCCL uses InfiniBand.
func (n *Node) roce() []placement.NIC {
	_, wanted := n.ports()
	if slices.ContainsFunc(wanted, func(p placement.NIC) bool { return p.Kind != placement.RoCE }) {
		return nil
	}
	return wanted
}

func (b *builder) gidFamily() string {
	for i := range b.in.Nodes {
		n := &b.in.Nodes[i]
		ports := n.roce()
		if len(ports) == 0 || n.ncclBefore(2, 21, 0) || slices.ContainsFunc(ports, func(p placement.NIC) bool {
			return !p.GIDIPv6
		}) {
			return ""
		}
	}
	return only(b.rdma, "AF_INET6")
}

func (p view) gidIndex() string {
	ports := p.node().roce()
	if len(ports) == 0 || !p.node().ncclBefore(2, 21, 0) || !p.rdma {
		return ""
	}
	index := ports[0].GID
	if slices.ContainsFunc(ports, func(nic placement.NIC) bool { return nic.GID != index }) {
		return ""
	}
	return only(index >= 0, strconv.Itoa(index))
}

func (b *builder) cuMemHost() string {
	return only(slices.ContainsFunc(b.in.Nodes, func(n Node) bool {
		return n.Host.Container != "" && n.Host.NoMemoryPolicy && n.ncclSince(2, 23, 0) && n.ncclBefore(2, 26, 5)
	}), "0")
}

func (b *builder) socketThreads() string {
	const fast = 100_000 // Mbit/s
	off := b.hasValue("NCCL_IB_DISABLE", "1")
	for i := range b.in.Nodes {
		n := &b.in.Nodes[i]
		active, _ := n.ports()
		efa := slices.ContainsFunc(n.RDMA, func(p placement.NIC) bool { return p.Kind == placement.EFA })
		if !n.Host.GPUs || n.Mbps < fast || len(active) > 0 && !off || efa || n.Host.Cloud == "Amazon EC2" ||
			n.Host.Cloud == "Google Compute Engine" {
			return ""
		}
	}
	return only(len(b.in.Nodes) > 1, "4")
}

func (b *builder) fineGrain() string {
	return only(!slices.ContainsFunc(b.in.Nodes, func(n Node) bool {
		version, err := nccl.ParseVersion(n.Host.ROCm)
		return err != nil || version.Major >= 6 || len(n.GPUs) < 2 || slices.ContainsFunc(n.GPUs, func(g placement.GPU) bool {
			return g.Vendor != placement.AMD || len(g.Links) > 0
		})
	}), "1")
}

// ncclSince reports whether the node's NCCL is known to have at least this version. ncclBefore reports whether
// it is known to be older.
func (n *Node) ncclSince(major, minor, patch int) bool {
	return since(n.Host.Library, nccl.Version{Major: major, Minor: minor, Patch: patch})
}

func (n *Node) ncclBefore(major, minor, patch int) bool {
	version, err := nccl.ParseVersion(n.Host.Library)
	return err == nil && version.Compare(nccl.Version{Major: major, Minor: minor, Patch: patch}) < 0
}

func since(text string, least nccl.Version) bool {
	version, err := nccl.ParseVersion(text)
	return err == nil && version.Compare(least) >= 0
}

// findOrder records the nodes on which the user set CUDA's numbering of GPUs.
func (b *builder) findOrder() {
	b.ordered = make([]bool, len(b.in.Nodes))
	for node := range b.in.Nodes {
		b.ordered[node] = b.has(env.VarCUDADeviceOrder) || b.onNode[node].find(env.VarCUDADeviceOrder) >= 0 ||
			b.conf[node][env.VarCUDADeviceOrder].File != ""
	}
}

// deviceOrder makes CUDA number GPUs as nvidia-smi and gorun do, unless the user set the numbering.
func (p view) deviceOrder() string {
	own := cmp.Or(p.in.Tune, TuneAuto) == TuneAuto && !p.ordered[p.own().Node]
	return cmp.Or(p.own().Visible[env.VarCUDADeviceOrder], only(own, "PCI_BUS_ID"))
}
