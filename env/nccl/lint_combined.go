package nccl

import (
	"fmt"
	"strings"
)

// combination is a rule about two settings: with is wrong, or does nothing, beside
// one.
type combination struct {
	one, with string // names; with may be a pattern
	// holds says whether the values make the rule hold; nil: whatever they are.
	holds func(one, with string) bool
	text  string // of with; %s is the other setting
}

// combinations is called when there is something to lint, not when a program starts.
func combinations() []combination {
	on := func(one, _ string) bool { return one == "1" }
	return []combination{
		{"NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", on, "%s switches direct access off, whatever the level"},
		{"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", func(one, with string) bool { return one == "1" && with == "1" }, "with %s the ranks of a host have the network alone"},
		{"NCCL_IB_DISABLE", "NCCL_IB_*", on, "%s switches InfiniBand and RoCE off"},
		{"NCCL_IB_DISABLE", "NCCL_NET_GDR_*", on, "%s switches InfiniBand and RoCE off, and GPUDirect RDMA with it"},
		{"NCCL_IB_DISABLE", "NCCL_NET", func(one, with string) bool { return one == "1" && strings.EqualFold(with, "IB") }, "%s switches off what it asks for"},
		{"NCCL_NET", "NCCL_IB_*", func(one, _ string) bool { return strings.EqualFold(one, "Socket") }, "%s uses no InfiniBand"},
		{"NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD", func(one, with string) bool { return number(one)*number(with) > 64 }, "times %s that is more than 64, the most that NCCL takes"},
		{"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", more, "%s is more"},
		{"NCCL_MIN_CTAS", "NCCL_MAX_CTAS", more, "%s is more"},
		{"NCCL_IB_GID_INDEX", "NCCL_IB_ADDR_FAMILY", index, "%s has chosen already"},
		{"NCCL_IB_GID_INDEX", "NCCL_IB_ADDR_RANGE", index, "%s has chosen already"},
		{"NCCL_IB_GID_INDEX", "NCCL_IB_ROCE_VERSION_NUM", index, "%s has chosen already"},
		{"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", quiet, "%s says nothing that it could choose from: it needs NCCL_DEBUG=INFO"},
		{"NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE", func(one, with string) bool { return one == "0" && with == "1" }, "with %s there is no NVLink SHARP"},
		{"NCCL_CUMEM_ENABLE", "NCCL_MNNVL_ENABLE", func(one, with string) bool { return one == "0" && with == "1" }, "with %s there is no multi-node NVLink"},
		{"NCCL_RAS_ENABLE", "NCCL_RAS_ADDR", func(one, _ string) bool { return one == "0" }, "with %s nobody listens there"},
		{"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", nil, "its indices count within what %s leaves: set one of the two"},
		{"ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", nil, "its indices count within what %s leaves: set one of the two"},
		{"HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", nil, "%s says the same: set one of the two"},
		{"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_btl_tcp_if_exclude", nil, "Open MPI takes one of the two, and %s is set"},
		{"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DUMP_ON_TIMEOUT", func(one, with string) bool { return one == "0" && with == "1" }, "with %s there is nothing to write"},
		{"TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_ON_TIMEOUT", func(one, with string) bool { return one == "0" && with == "1" }, "with %s there is nothing to write"},
	}
}

// index reports whether a RoCE address is chosen by its index.
func index(one, _ string) bool { return number(one) >= 0 }

// quiet reports whether NCCL says too little for its parts to be chosen.
func quiet(one, _ string) bool {
	return !strings.EqualFold(one, "INFO") && !strings.EqualFold(one, "TRACE")
}

// number is what a library reads from a text.
func number(text string) int64 {
	n, _ := leadingInt(text)
	return n
}

// more reports whether the first of two numbers is larger.
func more(one, with string) bool { return number(with) > 0 && number(one) > number(with) }

// combined looks at settings that hold at the same time; of each one thing is told.
// NCCL_IB_DISABLE is none of those that need InfiniBand.
func (l *linter) combined(settings []Assignment) {
	told := make(map[int]bool)
	for _, rule := range combinations() {
		for _, one := range settings {
			if one.Name != rule.one || one.Computed || one.Value == "" {
				continue
			}
			for i, with := range settings {
				if with.Name == one.Name || with.Value == "" || told[i] || !fits(rule.with, with.Name) || !with.within(one) || with.Name == "NCCL_IB_DISABLE" && rule.with != with.Name {
					continue
				}
				if rule.holds == nil || rule.holds(one.Value, with.Value) {
					told[i] = true
					l.add(i, with, ProblemContradict, fmt.Sprintf(rule.text, one.Name+"="+one.Value), "")
				}
			}
		}
	}
}
