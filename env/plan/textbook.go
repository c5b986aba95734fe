package plan

import "strconv"

// Study configures the rules from teaching texts.
type Study struct {
	// ModelBytes is the size of the model's parameters; 0 is 1 GB.
	ModelBytes int64
	// Network is the kind of network between hosts, one of [StudyNetworks]. "" means "ethernet" with several
	// nodes, else "nvlink".
	Network string
}

// StudyNetworks are the networks in the texts.
var StudyNetworks = []string{"ethernet", "ib", "roce", "nvlink", "pcie"}

// network returns Study.Network or its default.
func (b *builder) network() string {
	switch {
	case b.in.Study.Network != "":
		return b.in.Study.Network
	case len(b.in.Nodes) > 1:
		return "ethernet"
	}
	return "nvlink"
}

// gigabytes returns the size of the model.
func (b *builder) gigabytes() float64 {
	if b.in.Study.ModelBytes == 0 {
		return 1
	}
	return float64(b.in.Study.ModelBytes) / 1e9
}

// textbookRules are settings that lectures and guides on NCCL recommend for a model size, number of ranks and
// network. --tune=textbook sets them, to compare with NCCL's own choice. Each reason explains the flaw of the
// recommendation. The rules combine five such texts, which disagree on some numbers.
func textbookRules() []*rule {
	return tuned(ForStudy, TeachingTexts,
		study("NCCL_ALGO", "`Tree` for models below 1 GB or more than 16 ranks, else `Ring`",
			"\"small models want low latency\"; but NCCL chooses by the size of each call, not of the model: Tree makes "+
				"all-gather fail, Ring switches NVLS off",
			func(p view) string {
				if p.gigabytes() < 1 || len(p.in.Ranks) > 16 {
					return "Tree"
				}
				return "Ring"
			}),
		study("NCCL_PROTO", "`LL128` for models of 10 GB or more, else `Simple`",
			"\"Simple is fast for small, LL128 for large models\"; but latency comes from LL, and LL128 where it is not safe "+
				"corrupts data",
			func(p view) string {
				if p.gigabytes() >= 10 {
					return "LL128"
				}
				return "Simple"
			}),
		study("NCCL_BUFFSIZE", "`16777216` for models of 1 GB or more, else `4194304`",
			"\"large models want large buffers\"; but a buffer exists for each channel and peer, and takes the model's memory; "+
				"4194304 is the default",
			func(p view) string {
				if p.gigabytes() >= 1 {
					return "16777216"
				}
				return "4194304"
			}),
		study("NCCL_NTHREADS", "`16`", "\"use many threads\"; but these are the GPU's, and what is no multiple of 32, "+
			"such as 16, counts as the most, which is 512", always("16")),
		study("NCCL_MIN_NCHANNELS", "`4`; `8` with ib and roce, `16` with nvlink",
			"\"more channels for faster links\"; but NCCL counts the links itself, and each channel takes multiprocessors from "+
				"the model",
			func(p view) string { return strconv.Itoa(p.channels() / 2) }),
		study("NCCL_MAX_NCHANNELS", "`8`; `16` with ib and roce, `32` with nvlink",
			"as NCCL_MIN_NCHANNELS; the name is deprecated since 2.17 for NCCL_MAX_CTAS",
			func(p view) string { return strconv.Itoa(p.channels()) }),
		study("NCCL_IB_DISABLE", "`0` with ib and roce, else `1`",
			"0 is the default, and cancels what an administrator's nccl.conf says; 1 gives fast adapters up",
			func(p view) string { return p.byRDMA("0", "1") }),
		study("NCCL_IB_HCA", "`mlx5_0,mlx5_1` with ib and roce",
			"a guess at names, which begin so: mlx5_1 is also mlx5_10; NCCL finds all active ports, whoever made them",
			onlyRDMA("mlx5_0,mlx5_1")),
		study("NCCL_IB_GID_INDEX", "`3` with ib and roce",
			"nothing on InfiniBand; on RoCE NCCL 2.21 finds it, and 3 is one maker's habit", onlyRDMA("3")),
		study("NCCL_IB_TIMEOUT", "`22` with ib and roce", "a dead link is noticed after minutes; 20 is the default",
			onlyRDMA("22")),
		study("NCCL_NET_GDR_LEVEL", "`5` with ib and roce",
			"an old number for SYS: GPUDirect RDMA across sockets, slow or a hang", onlyRDMA("5")),
		study("NCCL_CROSS_NIC", "`1` with ib and roce",
			"\"use several NICs\"; but all are used anyway, this is about rails", onlyRDMA("1")),
		study("NCCL_SOCKET_IFNAME", "`ib0` with ib, `eth0` with ethernet and roce",
			"a guess at a name, for the first contact alone with RDMA; a host without it fails",
			func(p view) string {
				switch p.network() {
				case "ib":
					return "ib0"
				case "ethernet", "roce":
					return "eth0"
				}
				return ""
			}),
		study("NCCL_P2P_LEVEL", "`NVL` with nvlink, `SYS` with pcie",
			"\"force NVLink\"; but NVL only forbids the rest, and SYS allows paths that may hang",
			func(p view) string { return map[string]string{"nvlink": "NVL", "pcie": "SYS"}[p.network()] }),
		study("NCCL_P2P_DISABLE", "`0`", "the default; cancels what an administrator's nccl.conf says", always("0")),
		study("NCCL_SHM_DISABLE", "`0`", "the default; cancels what an administrator's nccl.conf says", always("0")),
		study("NCCL_TIMEOUT", "`3600000`",
			"no NCCL has such a variable: init_process_group(timeout=...) is what is meant", always("3600000")),
		study("NCCL_DEBUG_SUBSYS", "`ALL`", "with NCCL_DEBUG=INFO gigabytes of log", always("ALL")),
	)
}

// TeachingTexts is the Source of rows that only TuneTextbook enables.
const TeachingTexts = "teaching texts"

// study is a rule for study. An empty value means unset.
func study(name, values, reason string, value func(view) string) *rule {
	return given(name, values, reason, wholeJob, value)
}

func onlyRDMA(value string) func(view) string {
	return func(p view) string { return p.byRDMA(value, "") }
}

// byRDMA returns with for networks with RDMA, else without.
func (b *builder) byRDMA(with, without string) string {
	if n := b.network(); n == "ib" || n == "roce" {
		return with
	}
	return without
}

// channels returns the largest number of channels that the texts recommend for the network.
func (b *builder) channels() int {
	switch b.network() {
	case "nvlink":
		return 32
	case "ib", "roce":
		return 16
	}
	return 8
}
