package dialect

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
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
	levels           // their number
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

// parser collects what a command line says. Setters fill it; finish makes the
// Invocation of it.
type parser struct {
	dialect *Dialect
	around  Surroundings
	level   level
	given   []*Option // on levels above this one
	now     []*Option // on this level
	whole   []*Option // that were typed for the whole job, before the first program

	inv      Invocation
	app      job.App  // of the current program
	later    bool     // it is not the first one
	places   []string // where a file of programs has each of them, for messages
	at       string   // that of the current one
	problems *multierror.Error

	// What counts only together with something else.
	help, version, dryRun   bool
	standalone, useEnv      bool
	allow                   []netip.Prefix
	allowLocalUsers         bool
	print                   printGiven
	ranksFrom, nodesFrom    string
	runIDFrom               string
	endpoint, master, local place
	hostLists               []arg
	hostFile                arg
	excluded                []arg
	engine                  engineWish
	nodeRank                nodeRankWish
	backend                 string
	conf                    rdzvConf
	freePort                bool // port 0 was asked for
	tokenFile               arg
	insecure                string // what allows nodes that prove nothing
	reach                   reachGiven
	grace                   graceWish
	start                   startWish // of the current program
	swallowed               string    // how its last option may have taken its name
	bench                   benchGiven
	mpi                     mpiGiven
	bareApps                int            // programs with -envnone
	appHosts                [][]arg        // lists of hosts of each program
	appFiles                []arg          // host file of each program
	appOwn                  [][]hosts.Host // of each program what both come to, where one of them is its own
	batch                   BatchWish
	env                     EnvWish
}

// problem adds to what is wrong with the command line; joined errors count one
// by one.
func (p *parser) problem(err error) {
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

// note adds a remark for the user.
func (p *parser) note(text string) { p.inv.Notes = append(p.inv.Notes, text) }

// hint is a note on what gorun chose where nothing is wrong.
func (p *parser) hint(text string) {
	if p.dryRun || !p.inv.IsSilent() {
		p.note(text)
	}
}

// parse reads the whole command line: one program, or several with a `:`
// between them.
func (p *parser) parse(args []string) {
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
		p.program(r, i == 0)
		p.at = ""
		if !r.more {
			return
		}
		args = r.next
	}
}

// program reads the options of one program and adds it to the job.
func (p *parser) program(r rewritten, first bool) {
	p.app, p.start, p.ranksFrom = job.App{}, startWish{}, ""
	p.given, p.now, p.level, p.later = slices.Clone(p.whole), nil, levelFlags, !first
	p.appHosts, p.appFiles, p.mpi.prefixes = append(p.appHosts, nil), append(p.appFiles, arg{}),
		append(p.mpi.prefixes, arg{})
	for _, err := range r.problems {
		p.problem(err)
	}
	if !first {
		r.options = p.onlyBlock(r.options)
	}
	p.flags(r)
	if p.dialect.batches {
		p.batchLine(r, first)
	}
	p.swallowed = ""
	if n := len(r.options); len(r.program) == 0 && n > 0 {
		p.swallowed = r.options[n-1].swallowed()
	}
	if first {
		p.whole = slices.DeleteFunc(slices.Clone(p.now), func(o *Option) bool { return o.block })
	}
	p.defaults(first)
	p.addApp(r.program)
}

// onlyBlock refuses, before a later program, options that count for the job.
func (p *parser) onlyBlock(options []occurrence) []occurrence {
	return slices.DeleteFunc(options, func(o occurrence) bool {
		if !o.option.block {
			p.problem(fmt.Errorf("%s counts for the whole job: put it before the first program", o.text))
		}
		return !o.option.block
	})
}

// flags has urfave/cli read the options. It gets one flag for each option that
// occurs, not one for each that exists: its cost grows with the square of their
// number.
func (p *parser) flags(r rewritten) {
	var flags []cli.Flag
	for _, o := range r.options {
		at := slices.IndexFunc(flags, func(f cli.Flag) bool { return f.(*occurring).option == o.option })
		if at < 0 {
			at = len(flags)
			flags = append(flags, &occurring{parser: p, option: o.option, names: o.option.Names[:1]})
		}
		f := flags[at].(*occurring)
		f.texts = append(f.texts, o.text)
	}
	app := newApp(p.dialect.Name)
	app.Flags = flags
	if err := app.Run(append([]string{app.Name}, r.args()...)); err != nil {
		p.problem(err)
	}
}

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

// occurring is an option of the table as a flag of urfave/cli. It has one name,
// because rewriting left only that one; its setter is called for each value.
type occurring struct {
	parser *parser
	option *Option
	names  []string
	texts  []string // what each occurrence looked like
	set    int      // how many of them were set
}

// Apply registers the flag.
func (f *occurring) Apply(set *flag.FlagSet) error {
	set.Var(f, f.names[0], f.option.Help)
	return nil
}

// Names returns the one name.
func (f *occurring) Names() []string { return f.names }

// IsSet reports whether a value came.
func (f *occurring) IsSet() bool { return f.set > 0 }

// String is the flag's default for help texts that are never printed.
func (f *occurring) String() string { return "" }

// Set takes one value. It never fails: the first mistake must not hide others.
func (f *occurring) Set(value string) error {
	text := f.texts[f.set]
	f.set++
	f.parser.apply(f.option, value, text)
	return nil
}

// apply takes one value of an option.
func (p *parser) apply(o *Option, value, from string) {
	p.now = append(p.now, o)
	if err := p.call(o, arg{value: value, from: from}); err != nil {
		p.problem(fmt.Errorf("%s: %w", from, err))
	}
}

// call calls the option's setter, or refuses the option.
func (p *parser) call(o *Option, a arg) (err error) {
	number := o.counts && p.level != levelFlags
	if !o.TakesValue() && !number && !o.optional {
		if a.on, err = parseSwitch(a.value); err != nil {
			return err
		}
	}
	if o.Group == GroupAccepted && (a.on || o.TakesValue()) {
		p.mpi.idle = append(p.mpi.idle, a.from+" has nothing to do: "+o.Help)
	}
	switch {
	case !o.Refused():
		return o.set(p, a)
	case o.TakesValue() || a.on:
		return errors.New(p.dialect.ownName(o.refusal(a.value)))
	}
	return nil
}
