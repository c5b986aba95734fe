package nccl

import (
	"fmt"
	"slices"
	"strings"
)

// combination is a rule about two settings: with is wrong or has no effect beside one.
type combination struct {
	one, with string // names; with may be a pattern
	// of selects values of one, and what values of with; nil selects all.
	of, what func(value string) bool
	// holds reports whether the rule applies to the two numbers; nil means that they do not matter.
	holds func(one, with int64) bool
	text  string // about with; %s is the other setting
}

// combinations is a function, so that only linting pays for the table.
func combinations() []combination {
	return []combination{
		{"NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", is("1"), nil, nil, "%s turns direct access off at any level"},
		{"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", is("1"), is("1"), nil, "with %s, ranks on one host can use only the " +
			"network"},
		{"NCCL_IB_DISABLE", "NCCL_IB_*", is("1"), nil, nil, "%s turns off InfiniBand and RoCE"},
		{
			"NCCL_IB_DISABLE", "NCCL_NET_GDR_*", is("1"), nil, nil,
			"%s turns off InfiniBand and RoCE, and GPUDirect RDMA with them",
		},
		{"NCCL_IB_DISABLE", "NCCL_NET", is("1"), is("IB"), nil, "%s turns off what it selects"},
		{"NCCL_NET", "NCCL_IB_*", is("Socket"), nil, nil, "%s uses no InfiniBand"},
		{"NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD", nil, nil, func(one, with int64) bool {
			return with > 0 && one > 64/with
		}, "times %s exceeds NCCL's limit of 64"},
		{"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", nil, nil, more, "%s exceeds it"},
		{"NCCL_MIN_CTAS", "NCCL_MAX_CTAS", nil, nil, more, "%s exceeds it"},
		{"NCCL_IB_GID_INDEX", "NCCL_IB_ADDR_FAMILY", index, nil, nil, "%s already selects the address"},
		{"NCCL_IB_GID_INDEX", "NCCL_IB_ADDR_RANGE", index, nil, nil, "%s already selects the address"},
		{"NCCL_IB_GID_INDEX", "NCCL_IB_ROCE_VERSION_NUM", index, nil, nil, "%s already selects the address"},
		{
			"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", quiet, nil, nil,
			"it filters the lines of NCCL_DEBUG=INFO, and %s prints none of them",
		},
		{"NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE", is("0"), is("1"), nil, "%s turns off NVLink SHARP"},
		{"NCCL_CUMEM_ENABLE", "NCCL_MNNVL_ENABLE", is("0"), is("1"), nil, "%s turns off multi-node NVLink"},
		{"NCCL_RAS_ENABLE", "NCCL_RAS_ADDR", is("0"), nil, nil, "%s turns off the port"},
		{
			"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", nil, nil, nil,
			"its indices count only the GPUs of %s: set one of the two",
		},
		{
			"ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", nil, nil, nil,
			"its indices count only the GPUs of %s: set one of the two",
		},
		{"HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", nil, nil, nil, "%s has the same effect: set one of the two"},
		{
			"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_btl_tcp_if_exclude", nil, nil, nil,
			"Open MPI accepts one of the two, and %s is set",
		},
		{
			"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DUMP_ON_TIMEOUT", is("0"), is("1"), nil,
			"%s leaves nothing to write",
		},
		{"TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_ON_TIMEOUT", is("0"), is("1"), nil, "%s leaves nothing to write"},
	}
}

// is returns a function that compares with one value, ignoring case.
func is(value string) func(string) bool {
	return func(text string) bool { return strings.EqualFold(text, value) }
}

// index reports whether a value selects a RoCE address by its index.
func index(value string) bool { return number(value) >= 0 }

// quiet reports whether a log level prints too little for subsystems to matter.
func quiet(value string) bool {
	return !strings.EqualFold(value, "INFO") && !strings.EqualFold(value, "TRACE")
}

// number returns the number that a library reads from a text.
func number(text string) int64 {
	n, _ := leadingInt(text)
	return n
}

// more reports whether the first number is larger.
func more(one, with int64) bool { return with > 0 && one > with }

// maxCombined bounds the settings that are compared with each other, as the file may be hostile.
const maxCombined = 5000

// combined checks settings that apply at the same time. It reports at most one finding for each setting: the
// first rule that applies, with the first other setting. NCCL_IB_DISABLE does not count as a setting that
// needs InfiniBand.
func (l *linter) combined(settings []Assignment) {
	settings = settings[:min(len(settings), maxCombined)]
	rules := combinations()
	for i, with := range settings {
		for _, rule := range rules {
			if with.Value == "" || with.Name == rule.one || !fits(rule.with, with.Name) ||
				with.Name == "NCCL_IB_DISABLE" && rule.with != with.Name || rule.what != nil && !rule.what(with.Value) {
				continue
			}
			first := slices.IndexFunc(settings, func(one Assignment) bool { return rule.applies(one, with) })
			if first >= 0 {
				l.add(i, with, ProblemContradict, fmt.Sprintf(rule.text, rule.one+"="+Shown(settings[first].Value)), "")
				break
			}
		}
	}
}

// applies reports whether one, in the same branch as with or an enclosing one, makes with wrong.
func (c combination) applies(one, with Assignment) bool {
	return one.Name == c.one && !one.Computed && one.Value != "" && (c.of == nil || c.of(one.Value)) &&
		with.within(one) && (c.holds == nil || c.holds(number(one.Value), number(with.Value)))
}
