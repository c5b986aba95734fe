package dialect

import "slices"

// fallback is a variable of another launcher that gives an option's default and has
// neither of the usual names.
type fallback struct {
	option, variable string
	// row is what stands for the option where the launcher has it as a variable alone.
	row *Option
}

// of is the option in a dialect.
func (f fallback) of(d *Dialect) *Option {
	if f.row != nil {
		return f.row
	}
	return d.exact(Spelling(f.option))
}

// defaults takes options from the environment, the stronger source first. Before
// later programs of an MPMD job only what counts for one program is taken.
func (p *Line) defaults(whole bool) {
	for p.level = levelGorun; p.level < levelOther; p.level++ {
		p.given, p.now = append(p.given, p.now...), p.now[:0:0]
		for o := range p.dialect.Options {
			if o.From == NoVar || !whole && !(o.block && o.Group == GroupProgram) || p.settled(o) {
				continue
			}
			if name := p.variable(o); name != "" {
				p.fromVariable(o, name)
			}
		}
	}
	p.given, p.now = append(p.given, p.now...), p.now[:0:0]
	for _, f := range p.dialect.fallbacks {
		if o := f.of(p.dialect); whole && !p.settled(o) && !slices.Contains(p.now, o) {
			p.fromVariable(o, f.variable)
		}
	}
}

// fromVariable takes a value from the environment, where there is one.
func (p *Line) fromVariable(o *Option, name string) {
	if value, found := p.around.Lookup(name); found && value != "" {
		p.apply(o, value, name+"="+value)
	}
}

// variable is the name of the variable that holds o's default on this level, or
// "".
func (p *Line) variable(o *Option) string {
	switch {
	case p.level == levelGorun && !o.Refused():
		return o.variable("GORUN_")
	case p.level == levelPET && o.From == varBoth:
		return o.variable("PET_")
	}
	return ""
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
