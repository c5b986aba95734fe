package dialect

import (
	"slices"
	"strings"
)

// fallback is an option, or what stands for one, and a variable of another launcher's that gives its default.
type fallback struct {
	option   *Option
	variable string
}

// fallbacks are those of the dialect that are set. Of several for one question the first counts.
func (p *Line) fallbacks() (all []fallback) {
	add := func(name string, option func() *Option) {
		if value, _ := p.around.Lookup(name); value != "" {
			all = append(all, fallback{option(), name})
		}
	}
	for _, f := range p.dialect.fallbacks {
		for _, name := range strings.Fields(f[1]) {
			add(name, func() *Option { return p.option(f[0]) })
		}
	}
	for _, prefix := range p.dialect.variablePrefixes {
		if !p.isSet(prefix) {
			continue
		}
		rows := p.dialect.variables(p)
		for i := range rows {
			for _, name := range rows[i].Names {
				add(prefix+name, func() *Option { return &rows[i] })
			}
		}
	}
	return all
}

// isSet reports whether there is a variable with a prefix. Mostly there is none, and no option is looked at.
func (p *Line) isSet(prefix string) bool {
	return slices.ContainsFunc(p.around.Names(), func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// defaults takes options from the environment, the stronger source first. Before
// later programs of an MPMD job only what counts for one program is taken.
func (p *Line) defaults(whole bool) {
	for p.level = levelGorun; p.level < levelOther; p.level++ {
		p.given, p.now = append(p.given, p.now...), p.now[:0:0]
		if !p.isSet([...]string{levelGorun: "GORUN_", levelPET: "PET_"}[p.level]) {
			continue
		}
		for o := range p.dialect.Options {
			names := o.Variables()
			if len(names) < int(p.level) || !whole && !(o.block && o.Group == GroupProgram) || p.settled(o) {
				continue
			}
			p.fromVariable(o, names[p.level-levelGorun])
		}
	}
	p.given, p.now = append(p.given, p.now...), p.now[:0:0]
	if !whole {
		return
	}
	for _, f := range p.fallbacks() {
		if !p.settled(f.option) && !slices.Contains(p.now, f.option) {
			p.fromVariable(f.option, f.variable)
		}
	}
}

// fromVariable takes a value from the environment, where there is one.
func (p *Line) fromVariable(o *Option, name string) {
	if value, found := p.around.Lookup(name); found && value != "" {
		p.apply(o, value, name+"="+value)
	}
}

// settled reports whether a stronger source has given o, or another answer to
// the same question.
func (p *Line) settled(o *Option) bool {
	return slices.ContainsFunc(p.given, func(g *Option) bool { return g == o || g.Family.settles(o.Family) })
}

// answers has the value that is being read settle another question, too.
func (p *Line) answers(f family) { p.now = append(p.now, &Option{Family: f}) }

// answered reports whether a stronger source has settled a question.
func (p *Line) answered(f family) bool { return p.settled(&Option{Family: f}) }
