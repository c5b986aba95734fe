package plan

import (
	"fmt"
	"slices"
	"strings"
)

// removeNamed removes inherited variables. Variables that gorun sets itself stay.
func (b *builder) removeNamed(e Export) {
	prefix, isPattern := e.prefix()
	for _, entry := range b.in.Inherited {
		name, _, _ := strings.Cut(entry, "=")
		if name != e.Name && !(isPattern && strings.HasPrefix(name, prefix)) {
			continue
		}
		b.take(name)
		b.out.Withheld = slices.DeleteFunc(b.out.Withheld, func(n string) bool { return n == name })
		b.remove(name, e.origin())
	}
}

// exportOwn gives ranks the exports of their own program. Exports of variables that gorun sets for each rank must have
// gorun's value.
func (b *builder) exportOwn() {
	given := make(map[string][]Variable) // by name; of each rank, the zero value for nothing
	var names []string
	give := func(rank int, v Variable) {
		if given[v.Name] == nil {
			given[v.Name], names = make([]Variable, len(b.in.Ranks)), append(names, v.Name)
		}
		given[v.Name][rank] = v
	}
	for _, v := range b.ownOf(b.stated) {
		for rank := range b.in.Ranks {
			give(rank, v)
		}
	}
	for rank, r := range b.in.Ranks {
		if rank > 0 && sameExports(r.Exports, b.in.Ranks[rank-1].Exports) {
			for _, name := range names {
				given[name][rank] = given[name][rank-1]
			}
			continue
		}
		for _, v := range b.ownOf(r.Exports) {
			give(rank, v)
		}
	}
	var wrong []string // exports of another value than gorun's
	ours := ""
	for _, name := range names {
		if !isOwn(name) {
			b.setOwn(name, given[name])
		} else if rank := b.contradicted(name, given[name]); rank >= 0 {
			export := given[name][rank].Reason
			if wrong = append(wrong, export); len(wrong) == 1 {
				value, _ := b.ofRank(rank, name)
				ours = fmt.Sprintf("gorun gives rank %d %s=%s", rank, name, value)
			}
			if !b.in.LenientExports {
				b.errs = append(b.errs, fmt.Errorf("%s: %w", export, exportable(name)))
			}
		}
	}
	switch {
	case len(wrong) == 0 || !b.in.LenientExports:
	case len(wrong) == 1:
		b.note("ignored %s: %s", wrong[0], ours)
	default:
		b.note("ignored %s and %s: %s", wrong[0], strings.Join(wrong[1:], " and "), ours)
	}
}

// contradicted returns the first rank whose export has another value than gorun's, or -1.
func (b *builder) contradicted(name string, exports []Variable) int {
	for rank, v := range exports {
		if v.Origin == "" {
			continue
		}
		if ours, set := b.ofRank(rank, name); !set || v.Value != ours {
			return rank
		}
	}
	return -1
}

// ofRank looks up a variable in a rank's environment.
func (b *builder) ofRank(rank int, name string) (string, bool) {
	own := nodeVariables(b.out.Ranks[rank])
	if i := own.find(name); i >= 0 {
		return own[i].Value, true
	}
	return b.ofNode(rank)(name)
}

// sameExports reports whether two ranks share one list, as ranks of one program do.
func sameExports(a, b []Export) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// ownOf returns the variables that a list of exports selects; those to remove have no origin.
func (b *builder) ownOf(list []Export) (all []Variable) {
	for _, e := range list {
		if err := e.check(); err != nil {
			b.errs = append(b.errs, err)
			continue
		}
		vars := b.named(e)
		if e.HasValue && isOwn(e.Name) {
			vars[0].Reason = e.String()
		}
		all = append(all, vars...)
	}
	return all
}

// setOwn gives each rank its own value of a variable. Ranks without one keep the shared value.
func (b *builder) setOwn(name string, own []Variable) {
	before := b.take(name)
	for rank, v := range own {
		list, inherited := slices.Clip(b.out.Ranks[rank]), before.of(b.in.Ranks[rank].Node)
		at := slices.IndexFunc(list, func(has Variable) bool { return has.Name == name })
		switch {
		case v.Name != "" && v.Origin == "" && at < 0: // taken away
			continue
		case v.Name != "" && v.Origin == "":
			list = slices.Delete(slices.Clone(list), at, at+1)
		case v.Name != "" && at >= 0:
			list = slices.Clone(list)
			list[at] = v
		case v.Name != "":
			list = append(list, v)
		case at >= 0:
		case inherited.Name != "":
			list = append(list, inherited)
		}
		b.out.Ranks[rank] = list
	}
}
