package dialect

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/urfave/cli/v2"

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
		if len(p.positions) == 0 {
			p.typed = append(p.typed, r.before(args, i == 0))
		}
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

// errPrinted ends a command whose help or version is printed instead.
var errPrinted = errors.New("help or version")

// urfave/cli would split its help flag's names by a regular expression to find out whether it is set.
func init() { cli.HelpFlag = nil }

// flags runs urfave/cli on the options of a program or command. It gets one flag for each option that
// occurs, not for each that exists: its cost grows with the square of their number.
func (p *Line) flags(r rewritten, then func(words []string)) error {
	var flags []cli.Flag
	for _, o := range r.options {
		at := slices.IndexFunc(flags, func(f cli.Flag) bool { return f.(*Flag).Option == o.Option })
		if at < 0 {
			at = len(flags)
			flags = append(flags, &Flag{Option: o.Option, line: p})
		}
		f := flags[at].(*Flag)
		f.texts = append(f.texts, o.Text)
	}
	before := func(c *cli.Context) error {
		then(c.Args().Slice())
		if p.help || p.version {
			return errPrinted
		}
		return nil
	}
	app := &cli.App{
		Name: Gorun.Name, HideHelp: true, HideVersion: true, DisableSliceFlagSeparator: true,
		Compiled: time.Unix(1, 0), // or it asks the file system for a time that is never printed
		Writer:   io.Discard, ErrWriter: io.Discard, Reader: eof{},
		Action:         func(*cli.Context) error { return nil },
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return err },
		ExitErrHandler: func(*cli.Context, error) {},
	}
	words := append([]string{app.Name}, r.args()...)
	if p.command == nil {
		app.Flags, app.Before = flags, before
	} else {
		c := *p.command
		c.HideHelp, c.Flags, c.Before = true, flags, before
		if r.more {
			c.Action = app.Action
		}
		app.Commands, words = []*cli.Command{&c}, slices.Insert(words, 1, c.Name)
	}
	if err := app.Run(words); err != errPrinted {
		return err
	}
	return nil
}

// eof is an empty reader.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// Flag is an option as a flag of urfave/cli, which knows only its first name: rewriting left no other.
type Flag struct {
	*Option
	Hidden  bool // the help leaves it to another command line's
	oneDash bool // as Hydra writes names
	line    *Line
	texts   []string // of each occurrence
	set     int      // occurrences that were set
}

// Flags returns options as flags that fill the line.
func (p *Line) Flags(options ...*Option) []cli.Flag {
	flags := make([]cli.Flag, len(options))
	for i, o := range options {
		flags[i] = &Flag{Option: o, line: p}
	}
	return flags
}

// Hide sets Hidden on flags, and returns them.
func Hide(flags []cli.Flag) []cli.Flag {
	for _, f := range flags {
		f.(*Flag).Hidden = true
	}
	return flags
}

// Apply registers the flag.
func (f *Flag) Apply(set *flag.FlagSet) error {
	set.Var(f, f.Name(), f.Help)
	return nil
}

// Names returns the first name.
func (f *Flag) Names() []string { return []string{f.Name()} }

// IsSet reports whether the flag has a value.
func (f *Flag) IsSet() bool { return f.set > 0 }

// String is the default in urfave/cli's help, which is never printed.
func (f *Flag) String() string { return "" }

// Set sets one value. It never fails, so that one mistake does not hide others.
func (f *Flag) Set(value string) error {
	f.line.apply(f.Option, value, f.texts[f.set])
	f.set++
	return nil
}

// apply sets one value of an option.
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
		return o.set(a)
	case o.TakesValue() || a.On:
		return errors.New(p.dialect.ownName(o.refusal(a.Value)))
	}
	return nil
}
