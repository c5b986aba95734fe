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

	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// level is how strong a source of values is; a lower one counts more.
type level uint8

const (
	levelFlags level = iota
	levelGorun       // GORUN_* variables
	levelPET         // PET_* variables
	levelOther       // variables that torchrun itself knows by other names
)

// place is a wish for where the store listens.
type place struct {
	addr     string
	port     int
	addrFrom string // what named the address (and the port, of an endpoint)
	portFrom string
}

// graceWish remembers which of its two names gave the grace.
type graceWish struct{ name, from string }

// startWish is what options say about how a program is started.
type startWish struct{ module, noPython, runPath bool }

// programGiven is what options say of one program that counts only together with something else.
type programGiven struct {
	hostLists []Arg
	hostFile  Arg
	hosts     []hosts.Host // what both come to, where one of the programs has a file of its own
	prefix    Arg          // --prefix
}

// Line collects what a command line says. Setters fill it; finish makes the
// Invocation of it.
type Line struct {
	dialect *Dialect
	tables  []table    // of the options for jobs
	bound   [][]Option // their rows, which fill this line
	around  Surroundings
	level   level
	given   []*Option // on levels above this one
	now     []*Option // on this level
	whole   []*Option // that were typed for the whole job, before the first program

	Invocation
	command  *cli.Command // of gorun's own; nil: the line is a job's
	app      job.App      // of the current program
	later    bool         // it is not the first one
	places   []string     // where a file of programs has each of them, for messages
	at       string       // that of the current one
	problems *multierror.Error

	// What counts only together with something else.
	shell                   string // the completion that is asked for
	help, version           bool
	standalone, useEnv      bool
	print                   printGiven
	ranksFrom, nodesFrom    string
	runIDFrom               string
	endpoint, master, local place
	excluded                []Arg
	engine                  engineWish
	nodeRank                nodeRankWish
	backend                 string
	conf                    rdzvConf
	freePort                bool // port 0 was asked for
	tokenFile               Arg
	insecure                string // what allows nodes that prove nothing
	reach                   reachGiven
	grace                   graceWish
	start                   startWish // of the current program
	swallowed               string    // how its last option may have taken its name
	mpi                     mpiGiven
	bareApps                int // programs with -envnone
	programs                []programGiven

	EachProgram func(Program)                  // looks at each program of the line
	CheckExport func(a Arg, name string) error // looks at variables that -x names without a value
}

// Problem adds to what is wrong with the command line; joined errors count one
// by one.
func (p *Line) Problem(err error) {
	several := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		several = joined.Unwrap()
	}
	for _, err := range several {
		if p.at != "" {
			err = fmt.Errorf("%s%w", p.at, err)
		}
		p.problems = multierror.Append(p.problems, err)
	}
}

// problem adds a mistake that is found here.
func (p *Line) problem(format string, args ...any) { p.Problem(fmt.Errorf(format, args...)) }

// Note adds a remark for the user.
func (p *Line) Note(text string) { p.Notes = append(p.Notes, text) }

// hint is a note on what gorun chose where nothing is wrong.
func (p *Line) hint(text string) {
	if p.DryRun || !p.IsSilent() {
		p.Note(text)
	}
}

// read reads the whole command line: one program, or several with a `:`
// between them.
func (p *Line) read(args []string) error {
	d := p.dialect
	if words, found := p.programFile(d, args); found {
		inFile := *d
		inFile.colons = true // no shell wrote it
		d, args = &inFile, words
	}
	for i := 0; ; i++ {
		if p.at = ""; i < len(p.places) {
			p.at = p.places[i]
		}
		r := d.rewrite(args)
		if err := p.program(r, i == 0); err != nil || !r.more {
			p.at = ""
			return err
		}
		args = r.next
	}
}

// program reads the options of one program and adds it to the job.
func (p *Line) program(r rewritten, first bool) error {
	p.app, p.start, p.ranksFrom = job.App{}, startWish{}, ""
	p.given, p.now, p.level, p.later = slices.Clone(p.whole), nil, levelFlags, !first
	p.programs = append(p.programs, programGiven{})
	for _, err := range r.problems {
		p.Problem(err)
	}
	if !first {
		r.options = p.onlyBlock(r.options)
	}
	return p.flags(r, func(words []string) {
		if p.EachProgram != nil {
			p.EachProgram(Program{r.options, words, r.ended, first, r.more, p.app.NumRanks})
		}
		p.swallowed = ""
		if n := len(r.options); len(r.program) == 0 && n > 0 {
			p.swallowed = r.options[n-1].swallowed()
		}
		if first {
			p.whole = slices.DeleteFunc(slices.Clone(p.now), func(o *Option) bool { return o.block })
		}
		p.defaults(first)
		p.addApp(words)
	})
}

// onlyBlock refuses, before a later program, options that count for the job.
func (p *Line) onlyBlock(options []Occurrence) []Occurrence {
	return slices.DeleteFunc(options, func(o Occurrence) bool {
		if !o.Option.block {
			p.problem("%s counts for the whole job: put it before the first program", o.Text)
		}
		return !o.Option.block
	})
}

// flags has urfave/cli read the options of a program, or of a command. It gets one flag for each
// option that occurs, not one for each that exists: its cost grows with the square of their number.
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
		if p.IsAsked() {
			return errAsked
		}
		return nil
	}
	app := newApp(Gorun.Name)
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
	if err := app.Run(words); err != errAsked {
		return err
	}
	return nil
}

// errAsked ends a command whose help or version is printed in its place.
var errAsked = errors.New("help or version")

// IsAsked reports whether help or the version is to be printed, whatever else is wrong.
func (p *Line) IsAsked() bool { return p.help || p.version }

// newApp is an urfave/cli application that prints nothing by itself.
func newApp(name string) *cli.App {
	return &cli.App{
		Name: name, HideHelp: true, HideVersion: true, DisableSliceFlagSeparator: true,
		Compiled: time.Unix(1, 0), // or it asks the file system for a time that nobody sees
		Writer:   io.Discard, ErrWriter: io.Discard, Reader: eof{},
		Action:         func(*cli.Context) error { return nil },
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return err },
		ExitErrHandler: func(*cli.Context, error) {},
	}
}

// eof is an empty reader.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// Flag is an option as a flag of urfave/cli. Of its names it has one there, because rewriting left only
// that one; its setter is called for each value.
type Flag struct {
	*Option
	Taken bool // the help of another command line shows it
	line  *Line
	texts []string // what each Occurrence looked like
	set   int      // how many of them were set
}

// Flags are options whose values a line takes.
func (p *Line) Flags(options ...*Option) []cli.Flag {
	flags := make([]cli.Flag, len(options))
	for i, o := range options {
		flags[i] = &Flag{Option: o, line: p}
	}
	return flags
}

// Taken has flags left to the help of another command line.
func Taken(flags []cli.Flag) []cli.Flag {
	for _, f := range flags {
		f.(*Flag).Taken = true
	}
	return flags
}

// Apply registers the flag.
func (f *Flag) Apply(set *flag.FlagSet) error {
	set.Var(f, f.Option.Names[0], f.Help)
	return nil
}

// Names returns the one name.
func (f *Flag) Names() []string { return f.Option.Names[:1] }

// IsSet reports whether a value came.
func (f *Flag) IsSet() bool { return f.set > 0 }

// String is the flag's default for help texts that are never printed.
func (f *Flag) String() string { return "" }

// Set takes one value. It never fails: the first mistake must not hide others.
func (f *Flag) Set(value string) error {
	text := f.texts[f.set]
	f.set++
	f.line.apply(f.Option, value, text)
	return nil
}

// apply takes one value of an option.
func (p *Line) apply(o *Option, value, from string) {
	p.now = append(p.now, o)
	if err := p.call(o, Arg{Value: value, From: from}); err != nil {
		p.problem("%s: %w", from, err)
	}
}

// call calls the option's setter, or refuses the option.
func (p *Line) call(o *Option, a Arg) (err error) {
	number := o.Counts && p.level != levelFlags
	if !o.TakesValue() && !number && !o.Optional {
		if a.On, err = parseSwitch(a.Value); err != nil {
			return err
		}
	}
	if o.Group == GroupAccepted && (a.On || o.TakesValue()) {
		p.mpi.idle = append(p.mpi.idle, a.From+" has nothing to do: "+o.Help)
	}
	switch {
	case !o.Refused():
		return o.Set(a)
	case o.TakesValue() || a.On:
		return errors.New(p.dialect.ownName(o.refusal(a.Value)))
	}
	return nil
}
