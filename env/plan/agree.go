package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"gorun/env/nccl"
)

// checkAgreement notes settings that must be equal on all ranks and differ, because hosts inherit different values,
// one program has its own exports, or configuration files differ. NCCL does not compare them: it hangs or computes
// wrong results. The user decides, so this is a note and not an error.
func (b *builder) checkAgreement() {
	for _, name := range b.differingNames() {
		v, ok := nccl.Lookup(name)
		if !ok || !v.MustAgree() {
			continue
		}
		who := b.valuesByNode(name)
		values := who.texts
		if !slices.ContainsFunc(values, func(value string) bool { return !equivalent(v, value, values[0]) }) {
			continue
		}
		for i, value := range values {
			values[i] = value + " on " + b.joinNodes(who.on[value])
		}
		out := "-x " + name + "=VALUE sets it on all"
		if b.programsDiffer(name) {
			out = "give each program the same -x " + name + "=VALUE"
		}
		b.note("%s differs between ranks, so they may hang or fail: it is %s; %s", name,
			strings.Join(values, ", "), out)
	}
}

// equivalent reports whether NCCL treats two values alike: an unset variable equals its default spelled out.
func equivalent(v nccl.Variable, a, b string) bool {
	usual := func(value string) bool { return value == notSet || v.IsDefault(value) }
	return a == b || usual(a) && usual(b)
}

// programsDiffer reports whether only some programs export a variable, which overrides exports to all.
func (b *builder) programsDiffer(name string) bool {
	return slices.ContainsFunc(b.in.Ranks, func(r Rank) bool {
		return slices.ContainsFunc(r.Exports, func(e Export) bool {
			prefix, isPattern := e.prefix()
			return e.Name == name || isPattern && strings.HasPrefix(name, prefix)
		})
	})
}

// differingNames returns, sorted, the NCCL variables whose source is not the same for all ranks.
func (b *builder) differingNames() []string {
	found := map[string]bool{}
	add := func(list []Variable) {
		for _, v := range list {
			if isNCCL(v.Name) {
				found[v.Name] = true
			}
		}
	}
	for _, list := range b.onNode {
		add(list)
	}
	for _, list := range b.out.Ranks {
		add(list)
	}
	// without GPUs, no library reads the files
	if len(b.conf) > 1 && slices.ContainsFunc(b.in.Nodes, func(n Node) bool { return n.Host.GPUs }) {
		for _, c := range b.conf {
			for name := range c {
				found[name] = found[name] || isNCCL(name)
			}
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(found)), func(name string) bool { return !found[name] })
}

func isNCCL(name string) bool {
	return strings.HasPrefix(name, "NCCL_") || strings.HasPrefix(name, "RCCL_")
}

const notSet = "not set"

// valuesByNode returns the distinct values of a variable in rank order, with the nodes that have each.
func (b *builder) valuesByNode(name string) (values nodeNotes) {
	for rank, r := range b.in.Ranks {
		values.add(cmp.Or(b.effective(name, rank), notSet), b.nodeName(r.Node))
	}
	return values
}

// effective returns the value that NCCL uses in a rank: from the environment, else from the host's configuration
// files.
func (b *builder) effective(name string, rank int) string {
	if value, ok := b.ofRank(rank, name); ok {
		return value
	}
	return b.conf[b.in.Ranks[rank].Node][name].Value
}
