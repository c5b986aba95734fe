package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"gorun/env/nccl"
)

// agree finds settings that must be the same on all ranks and are not: by what ranks on
// different hosts inherit, by exports of one program alone, by files of settings. NCCL
// does not compare them, it hangs or computes nonsense. What differs is told, since it
// is the user's or the administrator's, who may know better.
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
		out := "-x " + name + "=VALUE gives it to all"
		if b.programsDiffer(name) {
			out = "give each program the same -x " + name + "=VALUE"
		}
		b.note("%s must be the same on all ranks, which hang or fail otherwise, and is %s: %s", name,
			strings.Join(values, ", "), out)
	}
}

// sameTo reports whether two values are one to NCCL: a default that one host spells out is
// what the others have.
func equivalent(v nccl.Variable, a, b string) bool {
	usual := func(value string) bool { return value == notSet || v.IsDefault(value) }
	return a == b || usual(a) && usual(b)
}

// programsDiffer reports whether a variable is exported to some ranks alone, which beats
// what is exported to all.
func (b *builder) programsDiffer(name string) bool {
	return slices.ContainsFunc(b.in.Ranks, func(r Rank) bool {
		return slices.ContainsFunc(r.Exports, func(e Export) bool {
			prefix, isPattern := e.prefix()
			return e.Name == name || isPattern && strings.HasPrefix(name, prefix)
		})
	})
}

// differing are the names of NCCL's variables that not all ranks have from the same
// place, sorted.
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
	// nobody reads the files without
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

// notSet is what ranks have of a variable that nobody gave them.
const notSet = "not set"

// whoHas lists the values of a variable, in the order of the ranks, with the nodes that
// have them.
func (b *builder) valuesByNode(name string) (values nodeNotes) {
	for rank, r := range b.in.Ranks {
		values.add(cmp.Or(b.effective(name, rank), notSet), b.nodeName(r.Node))
	}
	return values
}

// effective is what a rank's library goes by: the environment, then its host's files.
func (b *builder) effective(name string, rank int) string {
	if value, ok := b.ofRank(rank, name); ok {
		return value
	}
	return b.conf[b.in.Ranks[rank].Node][name].value
}
