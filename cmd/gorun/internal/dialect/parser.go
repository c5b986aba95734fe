package dialect

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/go-multierror"

	"gorun/launcher/job"
)

// level is the strength of a source of values; a lower one wins.
type level uint8

const (
	levelFlags level = iota
	levelGorun       // GORUN_* variables
	levelPET         // PET_* variables
	levelOther       // other launchers' variables of other names
)

// Problem adds to what is wrong with the command line. Each of joined errors counts.
func (p *Line) Problem(err error) {
	several := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		several = joined.Unwrap()
	}
	for _, err := range several {
		if p.position != "" {
			err = fmt.Errorf("%s%w", p.position, err)
		}
		p.problems = multierror.Append(p.problems, err)
	}
}

func (p *Line) problem(format string, args ...any) { p.Problem(fmt.Errorf(format, args...)) }

// Note adds a note for the user.
func (p *Line) Note(text string) { p.Notes = append(p.Notes, text) }

func (p *Line) note(format string, args ...any) { p.Note(fmt.Sprintf(format, args...)) }

// verbose adds a note under -v.
func (p *Line) verbose(format string, args ...any) {
	if p.Verbose > 0 {
		p.note(format, args...)
	}
}

// hint notes a choice of gorun's where nothing is wrong.
func (p *Line) hint(format string, args ...any) {
	if p.DryRun || !p.IsSilent() {
		p.note(format, args...)
	}
}

// read reads the whole command line: one program, or several with a `:` between them.
func (p *Line) read(args []string) error {
	d := p.dialect
	if words, found := p.programFile(d, args); found {
		inFile := *d
		inFile.colons = true // no shell wrote it
		d, args = &inFile, words
	}
	for i := 0; ; i++ {
		if p.position = ""; i < len(p.positions) {
			p.position = p.positions[i]
		}
		r := d.rewrite(args)
		if err := p.program(r, i == 0); err != nil || !r.more {
			p.position = ""
			return err
		}
		args = r.next
	}
}

// program reads the options of one program and adds it to the job.
func (p *Line) program(r rewritten, first bool) error {
	p.app, p.start, p.ranksFrom = job.App{}, startMode{}, ""
	p.given, p.now, p.level, p.later = slices.Clone(p.whole), nil, levelFlags, !first
	p.programs = append(p.programs, programState{})
	for _, err := range r.problems {
		p.Problem(err)
	}
	if !first {
		r.options = slices.DeleteFunc(r.options, func(o Occurrence) bool {
			if !o.Option.block {
				p.problem("%s applies to the whole job: put it before the first program", o.Text)
			}
			return !o.Option.block
		})
	}
	return p.flags(r, func(words []string) {
		if p.OnProgram != nil {
			p.OnProgram(Program{r.options, words, r.ended, first, r.more, p.app.NumRanks})
		}
		p.swallowed = ""
		if n := len(r.options); len(r.program) == 0 && n > 0 {
			p.swallowed = r.options[n-1].swallowed()
		}
		if first {
			p.whole = slices.DeleteFunc(slices.Clone(p.now), func(o *Option) bool { return o.block })
		}
		p.defaults(first)
		p.addApp(words, r.ended)
	})
}

// flags sets the options of a program or command, and runs the command.
func (p *Line) flags(r rewritten, then func(words []string)) error {
	for _, o := range r.options {
		p.apply(o.Option, o.Value, o.Text)
	}
	then(r.program)
	if p.command == nil || p.help || p.version || r.more {
		return nil
	}
	return p.command.Action()
}

// apply sets one value of an option. It does not fail, so that one mistake does not hide others.
func (p *Line) apply(o *Option, value, source string) {
	p.now = append(p.now, o)
	if err := p.call(o, Arg{Value: value, From: source}); err != nil {
		p.problem("%s: %w", source, err)
	}
}

// call calls the option's setter, or refuses the option.
func (p *Line) call(o *Option, a Arg) (err error) {
	number := o.Counts && p.FromVariable()
	if !o.TakesValue() && !number && !o.Optional {
		if a.On, err = parseSwitch(a.Value); err != nil {
			return err
		}
	}
	if o.Group == GroupAccepted && (a.On || o.TakesValue()) {
		p.idle = append(p.idle, a.From+" has no effect: "+o.Help)
	}
	switch {
	case !o.Refused():
		return o.Set(a)
	case o.TakesValue() || a.On:
		return errors.New(p.dialect.ownName(o.refusal(a.Value)))
	}
	return nil
}
