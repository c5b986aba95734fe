package dialect

import (
	"slices"
	"strings"
)

// fallback is a variable of another launcher's that gives an option its default.
type fallback struct {
	option   *Option
	variable string
}

// fallbacks returns those of the dialect whose variable is set. The first of a family wins.
func (p *Line) fallbacks() (all []fallback) {
	add := func(name string, option func() *Option) {
		if p.variable(name) != "" {
			all = append(all, fallback{option(), name})
		}
	}
	for _, f := range p.dialect.fallbacks {
		for _, name := range strings.Fields(f[1]) {
			add(name, func() *Option { return p.option(f[0]) })
		}
	}
	for _, prefix := range p.dialect.variablePrefixes {
		if !p.hasVariables(prefix) {
			continue
		}
		for _, row := range pointers(p.dialect.variables(p)) {
			for _, name := range row.AllNames() {
				add(prefix+name, func() *Option { return row })
			}
		}
	}
	return all
}

// hasVariables reports whether any variable has the prefix. Mostly none has, and no table is made.
func (p *Line) hasVariables(prefix string) bool {
	return slices.ContainsFunc(p.around.Names(), func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// defaults sets options from variables, stronger sources first. For later programs of an
// MPMD job it sets only options of one program.
func (p *Line) defaults(whole bool) {
	for p.level = levelGorun; p.level < levelOther; p.level++ {
		p.given, p.now = append(p.given, p.now...), p.now[:0:0]
		if !p.hasVariables([...]string{levelGorun: "GORUN_", levelPET: "PET_"}[p.level]) {
			continue
		}
		for o := range p.dialect.Options {
			names := o.Variables()
			if len(names) < int(p.level) || !whole && !(o.block && o.Group == GroupProgram) || p.overridden(o) {
				continue
			}
			p.setFromVariable(o, names[p.level-levelGorun])
		}
	}
	p.given, p.now = append(p.given, p.now...), p.now[:0:0]
	if !whole {
		return
	}
	for _, f := range p.fallbacks() {
		if !p.overridden(f.option) && !slices.Contains(p.now, f.option) {
			p.setFromVariable(f.option, f.variable)
		}
	}
}

// setFromVariable sets an option if the variable is not empty.
func (p *Line) setFromVariable(o *Option, name string) {
	if value := p.variable(name); value != "" {
		p.apply(o, value, name+"="+value)
	}
}

// overridden reports whether a stronger source has set the option or its family.
func (p *Line) overridden(o *Option) bool {
	return slices.ContainsFunc(p.given, func(g *Option) bool { return g == o || g.Family.excludes(o.Family) })
}

// markSet counts the family as set by the current source, beside that of the current option.
func (p *Line) markSet(f family) { p.now = append(p.now, &Option{Family: f}) }

// isSet reports whether a stronger source has set the family.
func (p *Line) isSet(f family) bool { return p.overridden(&Option{Family: f}) }
