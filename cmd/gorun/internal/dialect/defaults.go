package dialect

import "slices"

// fallback is a variable of torchrun that gives an option's default and has
// neither of the usual names.
type fallback struct{ option, variable string }

// defaults takes options from the environment, the stronger source first. Before
// later programs of an MPMD job only what counts for one program is taken.
func (p *parser) defaults(whole bool) {
	for p.level = levelGorun; p.level < levelOther; p.level++ {
		p.given, p.now = append(p.given, p.now...), p.now[:0:0]
		for o := range p.dialect.Options {
			if o.from == varNone || !whole && !(o.block && o.Group == GroupProgram) || p.settled(o) {
				continue
			}
			if name := p.variable(o); name != "" {
				p.fromVariable(o, name)
			}
		}
	}
	p.given, p.now = append(p.given, p.now...), p.now[:0:0]
	for _, f := range p.dialect.fallbacks {
		if o := p.dialect.exact(Spelling(f.option)); whole && !p.settled(o) && !slices.Contains(p.now, o) {
			p.fromVariable(o, f.variable)
		}
	}
}

// fromVariable takes a value from the environment, where there is one.
func (p *parser) fromVariable(o *Option, name string) {
	if value, found := p.around.Lookup(name); found && value != "" {
		p.apply(o, value, name+"="+value)
	}
}

// variable is the name of the variable that holds o's default on this level, or
// "".
func (p *parser) variable(o *Option) string {
	switch {
	case p.level == levelGorun && !o.Refused():
		return o.variable("GORUN_")
	case p.level == levelPET && o.from == varBoth:
		return o.variable("PET_")
	}
	return ""
}

// settled reports whether a stronger source has given o, or another answer to
// the same question.
func (p *parser) settled(o *Option) bool {
	return slices.ContainsFunc(p.given, func(g *Option) bool {
		return g == o || o.family != familyNone && g.family == o.family
	})
}
