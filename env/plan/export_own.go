package plan

import (
	"errors"
	"slices"
	"strings"
)

// removeNamed takes variables away that ranks would inherit; what gorun itself gives them
// stays.
func (b *builder) removeNamed(e Export) {
	prefix, isPattern := e.prefix()
	for _, entry := range b.in.Inherited {
		name, _, _ := strings.Cut(entry, "=")
		if name != e.Name && !(isPattern && strings.HasPrefix(name, prefix)) {
			continue
		}
		b.drop(name)
		for node := range b.onNode {
			b.onNode[node].drop(name)
		}
		b.out.Withheld = slices.DeleteFunc(b.out.Withheld, func(n string) bool { return n == name })
		b.remove(name, e.origin())
	}
}

// exportOwn gives ranks what is exported to them alone. What gorun gives each rank itself
// cannot be, as with all other exports.
func (b *builder) exportOwn() error {
	var errs []error
	given := make(map[string][]Variable) // by name; of each rank, the zero value for nothing
	var names []string
	for rank, r := range b.in.Ranks {
		if rank > 0 && sameExports(r.Exports, b.in.Ranks[rank-1].Exports) {
			for _, name := range names {
				given[name][rank] = given[name][rank-1]
			}
			continue
		}
		for _, v := range b.ownOf(r.Exports, &errs) {
			if given[v.Name] == nil {
				given[v.Name], names = make([]Variable, len(b.in.Ranks)), append(names, v.Name)
			}
			given[v.Name][rank] = v
		}
	}
	for _, name := range names {
		b.giveOwn(name, given[name])
	}
	return errors.Join(errs...)
}

// sameExports reports whether two ranks have one list, as those of one program do.
func sameExports(a, b []Export) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// ownOf are the variables that a list comes to. One without an origin is to be taken away.
func (b *builder) ownOf(list []Export, errs *[]error) (all []Variable) {
	for _, e := range list {
		if err := e.check(); err != nil {
			*errs = append(*errs, err)
			continue
		}
		prefix, isPattern := e.prefix()
		switch {
		case e.HasValue && !e.Remove:
			all = append(all, Variable{Name: e.Name, Value: e.Value, Origin: Exported, Reason: e.origin()})
			continue
		}
		found := false
		for _, entry := range b.in.Inherited {
			name, value, ok := strings.Cut(entry, "=")
			if !ok || name != e.Name && !(isPattern && strings.HasPrefix(name, prefix) && exportable(name) == nil) {
				continue
			}
			v := Variable{Name: name, Value: value, Origin: Exported, Reason: e.origin()}
			if found = true; e.Remove {
				v = Variable{Name: name}
			}
			all = append(all, v)
		}
		if !found && !e.Remove {
			b.note("%s: the variable is not set here, so ranks do not get it", e)
		}
	}
	return all
}

// giveOwn gives each rank its own value of a variable; who has none keeps what all had.
func (b *builder) giveOwn(name string, own []Variable) {
	before := b.drop(name)
	onNode := make([]Variable, len(b.onNode))
	for node := range b.onNode {
		onNode[node] = b.onNode[node].drop(name)
	}
	for rank, v := range own {
		list := slices.Clip(b.out.Ranks[rank])
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
		case onNode[b.in.Ranks[rank].Node].Name != "":
			list = append(list, onNode[b.in.Ranks[rank].Node])
		case before.Name != "":
			list = append(list, before)
		}
		b.out.Ranks[rank] = list
	}
}
