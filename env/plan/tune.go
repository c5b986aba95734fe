package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/env/nccl"
)

// Tune selects which NCCL, RCCL and Gloo settings gorun adds.
type Tune string

const (
	// TuneAuto adds the settings that the hosts need. The zero value means the same.
	TuneAuto Tune = "auto"
	// TuneOff adds none.
	TuneOff Tune = "off"
	// TuneTextbook adds only the settings that teaching texts recommend, for study.
	TuneTextbook Tune = "textbook"
)

// Level is the importance of a setting.
type Level string

const (
	// Needed: without it the job fails, hangs or computes wrong results.
	Needed Level = "needed"
	// Helps: without it the job is slower, or reports less when it fails.
	Helps Level = "helps"
	// ForStudy: recommended by a teaching text, but not needed on these hosts.
	ForStudy Level = "for study"
)

// Left is a setting that gorun does not make, and the reason.
type Left struct {
	Name   string `json:"name"`   // of the variable
	Reason string `json:"reason"` // why gorun leaves it alone
}

// tunes reports whether --tune enables a rule.
func (b *builder) tunes(r *rule) bool {
	switch cmp.Or(b.in.Tune, TuneAuto) {
	case TuneAuto:
		return r.level != ForStudy
	case TuneTextbook:
		return r.level == ForStudy
	}
	return false
}

// inConf reports whether a configuration file sets the rule's variable on the rank's host, or on any host if all ranks
// need the same value.
func (b *builder) inConf(r *rule, rank int) bool {
	if r.level == "" {
		return false
	}
	if r.differs == ofNode {
		_, ok := b.conf[b.in.Ranks[rank].Node][r.Name]
		return ok
	}
	return slices.ContainsFunc(b.conf, func(c map[string]nccl.Assignment) bool {
		_, ok := c[r.Name]
		return ok
	})
}

// leftAlone lists settings that gorun would have made, and settings that others make without need.
func (b *builder) leftAlone() {
	for _, r := range rules() {
		if r.value == nil || r.level == "" || !b.tunes(r) {
			continue
		}
		if where := b.whereInConf(r.Name); where != "" && !b.has(r.Name) {
			b.addLeft(r.Name, where)
		}
	}
	if !slices.ContainsFunc(b.in.Nodes, func(n Node) bool { return n.Host.GPUs }) {
		return
	}
	for _, l := range folklore {
		if !b.given(l.Name) {
			b.addLeft(l.Name, l.Reason)
		}
	}
}

// given reports whether any rank has a variable, from the environment or a configuration file.
func (b *builder) given(name string) bool {
	return b.has(name) || b.whereInConf(name) != "" ||
		slices.ContainsFunc(b.onNode, func(n nodeVariables) bool { return n.find(name) >= 0 }) ||
		slices.ContainsFunc(b.out.Ranks, func(own []Variable) bool { return nodeVariables(own).find(name) >= 0 })
}

func (b *builder) addLeft(name, reason string) { b.out.Left = append(b.out.Left, Left{name, reason}) }

// folklore lists settings that guides recommend by habit, and why gorun does not make them.
var folklore = []Left{
	{"NCCL_ALGO", "NCCL selects one for each call and size; if one is forced, other collectives fail"},
	{"NCCL_PROTO", "NCCL selects one for each size; LL128 corrupts data where it is unsafe"},
	{"NCCL_NTHREADS", "NCCL knows its kernels; these are threads of the GPU, not of the CPU"},
	{"NCCL_P2P_LEVEL", "NCCL knows the paths between GPUs; set it only after a measurement"},
	{"NCCL_NET_GDR_LEVEL", "a wider level sends GPUDirect RDMA across sockets: slow, or a hang"},
	{"NCCL_IB_GID_INDEX", "NCCL 2.21 and later select it; InfiniBand has none"},
	{"NCCL_CROSS_NIC", "NCCL uses all NICs anyway; this setting is about rails"},
}

func (b *builder) joinNodes(names []string) string {
	if b.in.JoinNodes == nil {
		return strings.Join(names, ", ")
	}
	return b.in.JoinNodes(names)
}

// whereInConf lists the configuration files that set a variable, with their hosts.
func (b *builder) whereInConf(name string) string {
	entries := nodeNotes{}
	for node, c := range b.conf {
		if e, ok := c[name]; ok {
			entries.add(fmt.Sprintf("%s sets it to %s", e.File, e.Value), b.nodeName(node))
		}
	}
	for i, text := range entries.texts {
		if len(b.in.Nodes) > 1 {
			entries.texts[i] += " on " + b.joinNodes(entries.on[text])
		}
	}
	return strings.Join(entries.texts, ", ")
}
