package dialect

import (
	"iter"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"
	"github.com/urfave/cli/v2"

	"gorun/launcher/hosts"
	"gorun/launcher/job"
	"gorun/placement"
)

// Line is one command line while it is read. The setters of its options fill it, and
// one of ResolveJob, ResolveHosts and ResolveRanks completes the [Invocation].
type Line struct {
	dialect *Dialect
	tables  []table    // options for jobs
	rows    [][]Option // rows of tables that have been made so far
	around  Surroundings

	Invocation
	command  *cli.Command // nil: the line starts a job
	problems *multierror.Error

	level level
	given []*Option // by stronger sources than level
	now   []*Option // by level
	whole []*Option // typed for the whole job, before the first program

	app       job.App   // current program
	start     startMode // of the current program
	ranksFrom string    // source of the current program's NumRanks
	later     bool      // the current program is not the first one
	programs  []programState
	positions []string // "FILE:LINE: " of each program from a file of programs
	position  string   // that of the current program
	swallowed string   // hint: how the last option may have taken the program's name

	// Options that only count together with others. A field named …From is the source of a switch or of a value in Spec.
	help, version                          bool
	standalone, useEnv                     bool
	shell                                  string // prints its completion
	nodesFrom, runIDFrom, graceFrom        string
	elasticFrom                            string // of what lets the job lose nodes
	spares                                 int
	graceName                              string // which of its two names gave the grace
	endpoint                               optionValue[endpoint]
	masterAddr, localAddr                  optionValue[string]
	masterPort                             optionValue[int]
	freePort                               bool // port 0 was given
	nodeRank                               optionValue[int]
	backend                                string
	conf                                   rdzvConf
	engine                                 engineState
	excluded                               []Arg
	tokenFile, defaultHostFile             Arg
	insecureFrom                           string // --insecure-join
	reach                                  reachState
	output                                 outputState
	cpus                                   optionValue[placement.CPUSet] // --cpu-list
	orderedCPUs                            optionValue[bool]             // --bind-to cpu-list; true: one for each rank
	threadsFrom, perNodeFrom, nolocalFrom  string
	oversubscribeFrom, nooversubscribeFrom string
	noEnvFrom, allEnvFrom                  string // -genvnone, -envall and their like
	programsWithoutEnv                     int
	exportListed                           bool // --export-all=false
	envLists                               []envList
	envDelimiter                           string
	searchPath                             string // --gpath
	preload                                bool   // --preload-binary
	distDevice                             string // --mca rmaps_dist_device
	moreHosts                              bool   // the allocation has more hosts than the lists of programs name
	idle                                   []string
	parameters                             []Option // of Open MPI's launcher, made on first use

	OnProgram   func(Program)                  // called for each program of the line
	CheckExport func(a Arg, name string) error // called for each variable that -x names without a value
}

// programState holds options of one program that only count together with others.
type programState struct {
	hostLists []Arg
	hostFile  Arg
	hosts     []hosts.Host // of both, if any program has a host file of its own
	prefix    Arg
}

// Program is one of a line, with the options before it.
type Program struct {
	Options     []Occurrence
	Words       []string // the program and its arguments
	Ended       bool     // by "--", before the program
	First, More bool     // first program; others follow
	NumRanks    int
}

// NewLine returns the line of a gorun command. SetCommand comes next, then Run.
func NewLine(around Surroundings) *Line {
	d := new(Dialect)
	return &Line{around: around, dialect: d, tables: Gorun.tables, Invocation: Invocation{Dialect: d}}
}

// SetCommand sets whose options the line has. With programs, a `:` may begin another one.
func (p *Line) SetCommand(c *cli.Command, programs bool) {
	p.command = c
	p.dialect.Name, p.dialect.flags, p.dialect.mpmd = c.HelpName, c.Flags, programs
	if programs {
		p.dialect.interpreters = gorunInterpreters
	}
}

// Run reads the words after the command's name, and runs the command's action.
func (p *Line) Run(args []string) error { return p.read(args) }

// Err returns all problems as a *[UsageError], or nil.
func (p *Line) Err() error {
	if p.problems == nil {
		return nil
	}
	return &UsageError{p.problems, p.dialect}
}

// HelpRequested reports whether to print the help instead, whatever else is wrong.
func (p *Line) HelpRequested() bool { return p.help }

// VersionRequested reports whether to print the version instead, whatever else is wrong.
func (p *Line) VersionRequested() bool { return p.version }

// Operands returns the words that belong to no option: the first program and its arguments.
func (p *Line) Operands() []string {
	app := p.Spec.Apps[0]
	if app.Program == "" && app.Args == nil {
		return nil
	}
	return append([]string{app.Program}, app.Args...)
}

// MoveOptionsFirst moves options before the operands, with "--" between them. isOption decides
// about each word that looks like an option, given the operands before it; nil accepts all.
func (p *Line) MoveOptionsFirst(args []string, isOption func(word string, o *Option, operands []string) bool) []string {
	var options, operands []string
	for len(args) > 0 && args[0] != "--" {
		word, used, pasted := args[0], 1, pastedOption(args[0]) != ""
		if moves := pasted || looksLikeOption(word); moves && isOption != nil {
			o, _, _ := p.dialect.match(word)
			if !isOption(word, o, operands) {
				operands, args = append(operands, word), args[1:]
				continue
			}
		} else if !moves {
			operands, args = append(operands, word), args[1:]
			continue
		}
		if !pasted {
			used = p.dialect.take(&rewritten{}, args)
		}
		options, args = append(options, args[:used]...), args[used:]
	}
	if len(args) > 0 {
		operands = append(operands, args[1:]...)
	}
	if operands == nil {
		return options
	}
	return slices.Concat(options, []string{"--"}, operands)
}

// FromVariable reports whether the value that is being set is a variable's.
func (p *Line) FromVariable() bool { return p.level != levelFlags }

// RanksFrom returns the source of the last program's number of ranks.
func (p *Line) RanksFrom() string { return p.ranksFrom }

// SplitProgram splits args before the program.
func (p *Line) SplitProgram(args []string) (options, program []string) {
	program = p.dialect.rewrite(args).program
	return args[:len(args)-len(program)], program
}

// HasOption reports whether an option with one of these first names precedes the program.
func (p *Line) HasOption(args []string, names ...string) bool {
	return slices.ContainsFunc(p.dialect.rewrite(args).options, func(o Occurrence) bool {
		return slices.Contains(names, o.Option.Name())
	})
}

// FindOption returns the option that a word names. It is nil, but known, for several letters in one word.
func (p *Line) FindOption(word string) (option *Option, known bool) {
	option, _, _ = p.dialect.match(word)
	return option, option != nil || p.dialect.cluster(word) != nil
}

// ResolveHosts completes the line of a command that only needs hosts. A program is optional.
func (p *Line) ResolveHosts() {
	p.resolveHosts()
	p.checkReach()
	if app := &p.Spec.Apps[0]; app.Program == "" {
		p.Spec.Apps = nil
	} else {
		p.Spec.Dir, app.Dir = app.Dir, ""
	}
}

// ResolveRanks completes the line of a command whose program is gorun itself. setCount sets how many
// ranks there are if no option does; setPerHost does so after the hosts are known.
func (p *Line) ResolveRanks(setCount, setPerHost func()) {
	p.findEngine()
	setCount()
	p.resolveHosts()
	p.resolveStore()
	p.resolveNodes()
	setPerHost()
	p.checkCounts()
	p.checkReach()
	p.resolveOutput()
	p.resolveEnd()
}

// HasHosts reports whether options or a resource manager name hosts.
func (p *Line) HasHosts() bool { return p.hostsGiven() || p.engine.hosts }

// HasSeveralHosts reports whether the job may have more than one host.
func (p *Line) HasSeveralHosts() bool {
	return p.hostsGiven() || p.isAllocation() || p.Spec.NumNodes > 1
}

// AllocationHasSlots reports whether the hosts are an allocation's that gives each a number of slots.
func (p *Line) AllocationHasSlots() bool {
	return p.isAllocation() && !p.hostsGiven() && !slices.ContainsFunc(p.engine.found.Hosts, hasNoSlots)
}

// DisableMPI serves no MPI protocol unless an option asks for one.
func (p *Line) DisableMPI() {
	p.Spec.MPI = job.MPINone
	p.Spec.MPIWhy = p.dialect.Name + " has none; start the program by gorun -np N PROGRAM"
}

// table returns the rows of a table, which are made on first use: a start pays for each.
func (p *Line) table(i int) []Option {
	for len(p.rows) <= i {
		p.rows = append(p.rows, p.tables[len(p.rows)](p))
	}
	return p.rows[i]
}

// options yields the options for jobs, table after table.
func (p *Line) options(yield func(*Option) bool) {
	for i := range p.tables {
		for j := range p.table(i) {
			if !yield(&p.rows[i][j]) {
				return
			}
		}
	}
}

// option returns an option for jobs; dashes before its name are optional.
func (p *Line) option(typed string) *Option { return withName(p.options, strings.TrimLeft(typed, "-")) }

func withName(options iter.Seq[*Option], name string) *Option {
	for o := range options {
		if o.has(name) {
			return o
		}
	}
	return nil
}

// JobOptions returns options for jobs by their first names.
func (p *Line) JobOptions(names ...string) []*Option {
	options := make([]*Option, len(names))
	for i, name := range names {
		options[i] = p.option(name)
	}
	return options
}

// JobOptionsExcept returns all options for jobs except some. With everything, options that
// only other launchers have are among them.
func (p *Line) JobOptionsExcept(everything bool, names ...string) []*Option {
	var all []*Option
	if everything {
		all = slices.Collect(p.options)
	} else {
		for _, rows := range []table{
			ownTable, nodesTable, endTable, placeTable, reachTable, mpiTable, outputTable, torchrunTable, foreignTable,
		} {
			all = append(all, pointers(rows(p))...)
		}
	}
	return slices.DeleteFunc(all, func(o *Option) bool { return slices.Contains(names, o.Name()) })
}

func pointers(rows []Option) []*Option {
	all := make([]*Option, len(rows))
	for i := range rows {
		all[i] = &rows[i]
	}
	return all
}

// ReachOptions returns the options on other hosts and how to reach them.
func (p *Line) ReachOptions() []*Option {
	return append(pointers(reachTable(p)), p.JobOptions("engine")...)
}
