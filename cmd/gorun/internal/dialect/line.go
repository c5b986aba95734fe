package dialect

import (
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// NewLine is the command line of a command of gorun's own, before its words are read.
func NewLine(around Surroundings) *Line {
	d := new(Dialect)
	return &Line{around: around, dialect: d, tables: Gorun.tables, Invocation: Invocation{Dialect: d}}
}

// Of has the line be one of a command; of those with programs a `:` may begin another one.
func (p *Line) Of(c *cli.Command, programs bool) {
	p.command = c
	p.dialect.Name, p.dialect.flags, p.dialect.mpmd = c.HelpName, c.Flags, programs
	if programs {
		p.dialect.interpreters = gorunInterpreters
	}
}

// Run has urfave/cli read the words, and act.
func (p *Line) Run(args []string) error { return p.read(args) }

// Err is what is wrong with the command line, or nil.
func (p *Line) Err() error {
	if p.problems == nil {
		return nil
	}
	return &UsageError{p.problems, p.dialect}
}

// IsHelp reports whether it is the help that is to be printed.
func (p *Line) IsHelp() bool { return p.help }

// Words are what no option took: of one program, its arguments with it.
func (p *Line) Words() []string {
	app := p.Spec.Apps[0]
	if app.Program == "" && app.Args == nil {
		return nil
	}
	return append([]string{app.Program}, app.Args...)
}

// OptionsFirst puts options that stand behind words before them. isOurs says which are options where others are
// words, with what they are and the words before; nil: all.
func (p *Line) OptionsFirst(args []string, isOurs func(word string, option *Option, words []string) bool) []string {
	var options, words []string
	for len(args) > 0 && args[0] != "--" {
		word, used := args[0], 1
		if ours := isOption(word) || pastedOption(word) != ""; ours && isOurs != nil {
			option, _, _ := p.dialect.match(word)
			if !isOurs(word, option, words) {
				words, args = append(words, word), args[1:]
				continue
			}
		} else if !ours {
			words, args = append(words, word), args[1:]
			continue
		}
		if pastedOption(word) == "" {
			used = p.dialect.take(&rewritten{}, args)
		}
		options, args = append(options, args[:used]...), args[used:]
	}
	if len(args) > 0 {
		words = append(words, args[1:]...)
	}
	if words == nil {
		return options
	}
	return slices.Concat(options, []string{"--"}, words)
}

// Program is one of a line, with the options before it.
type Program struct {
	Options     []Occurrence
	Words       []string // the program and its arguments
	Ended       bool     // by "--", before the program
	First, More bool     // it is the first one, and others follow
	NumRanks    int
}

// OfVariable reports whether a variable is being read.
func (p *Line) OfVariable() bool { return p.level != levelFlags }

// RanksFrom is the option that gave the number of ranks of the last program.
func (p *Line) RanksFrom() string { return p.ranksFrom }

// Split cuts words at the program, as far as options go.
func (p *Line) Split(args []string) (options, program []string) {
	program = p.dialect.rewrite(args).program
	return args[:len(args)-len(program)], program
}

// Has reports whether one of a line's options has this name, in front of its program.
func (p *Line) Has(args []string, names ...string) bool {
	return slices.ContainsFunc(p.dialect.rewrite(args).options, func(o Occurrence) bool {
		return slices.Contains(names, o.Option.Names[0])
	})
}

// Find is the option that a word is, nil where it is none or several letters; known: it is one or they are.
func (p *Line) Find(word string) (option *Option, known bool) {
	option, _, _ = p.dialect.match(word)
	return option, option != nil || p.dialect.cluster(word) != nil
}

// NoteAsArguments says which of the options are taken for the program's arguments, for they stand behind it.
func (p *Line) NoteAsArguments(words []string, names ...string) {
	for _, word := range words[min(len(words), 1):] {
		if slices.Contains(names, word) {
			p.Note(word + " stands behind the program " + words[0] + " and is taken for its argument: put it before")
		}
	}
}

// FinishHosts settles which hosts a command looks at, and how they are reached; a program is named or not.
func (p *Line) FinishHosts() {
	p.settleReach()
	p.finishHosts()
	p.finishReach()
	if app := &p.Spec.Apps[0]; app.Program == "" {
		p.Spec.Apps = nil
	} else {
		p.Spec.Dir, app.Dir = app.Dir, ""
	}
}

// FinishRanks settles how a job runs whose program is gorun's own: count says how many ranks there are where
// options do not, spread the same once the hosts are known.
func (p *Line) FinishRanks(count, spread func()) {
	p.findEngine()
	count()
	p.finishHosts()
	p.finishStore()
	p.finishNodes()
	spread()
	p.finishCounts()
	p.finishReach()
	p.finishOutput()
	p.finishAction()
}

// HasHosts reports whether options name hosts, or a resource manager does.
func (p *Line) HasHosts() bool { return p.hostsGiven() || p.engine.hosts }

// IsSpread reports whether several hosts are meant.
func (p *Line) IsSpread() bool { return p.hostsGiven() || p.isAllocation() || p.Spec.NumNodes > 1 }

// HasSlots reports whether a resource manager says how many ranks each host has.
func (p *Line) HasSlots() bool {
	return p.isAllocation() && !p.hostsGiven() && !slices.ContainsFunc(p.engine.found.Hosts, func(h hosts.Host) bool {
		return h.Slots == 0
	})
}

// WithoutMPI has ranks find nothing of MPI, which their program does not use.
func (p *Line) WithoutMPI() {
	p.Spec.MPI = job.MPINone
	p.Spec.MPIWhy = p.dialect.Name + " has none; start the program by gorun -np N PROGRAM"
}

// TokenFile is where a user's own token is looked for; "" is nowhere.
func (p *Line) TokenFile() string { return ownTokenFile(p.around) }

// AllowedPeers are the networks, and whether all users of this host, whose connections a store accepts.
func (p *Line) AllowedPeers() ([]netip.Prefix, bool) {
	return p.Spec.Store.Allow, p.Spec.Store.AllowLocalUsers
}

// table is one of the line's, made when it is looked at.
func (p *Line) table(i int) []Option {
	for len(p.bound) <= i {
		p.bound = append(p.bound, p.tables[len(p.bound)](p))
	}
	return p.bound[i]
}

// options yields the options for jobs, table after table.
func (p *Line) options(yield func(*Option) bool) {
	for i := range p.tables {
		for j := range p.table(i) {
			if !yield(&p.bound[i][j]) {
				return
			}
		}
	}
}

// option finds one for jobs as it is typed.
func (p *Line) option(typed string) *Option { return withName(p.options, strings.TrimLeft(typed, "-")) }

// withName finds an option by one of its names.
func withName(options iter.Seq[*Option], name string) *Option {
	for o := range options {
		if slices.Contains(o.Names, name) {
			return o
		}
	}
	return nil
}

// JobOptions are gorun's options for jobs by their first names.
func (p *Line) JobOptions(names ...string) []*Option {
	options := make([]*Option, len(names))
	for i, name := range names {
		options[i] = p.option(name)
	}
	return options
}

// OtherJobOptions are gorun's own options for jobs but for some: everything, those that only other launchers
// have as well.
func (p *Line) OtherJobOptions(everything bool, names ...string) []*Option {
	var all []*Option
	for _, rows := range []table{
		ownTable, nodesTable, endTable, placeTable, reachTable, mpiTable, outputTable, torchrunTable, foreignTable,
	} {
		all = append(all, pointers(rows(p))...)
	}
	if everything {
		all = slices.Collect(p.options)
	}
	return slices.DeleteFunc(all, func(o *Option) bool { return slices.Contains(names, o.Names[0]) })
}

// pointers are those to rows.
func pointers(rows []Option) []*Option {
	all := make([]*Option, len(rows))
	for i := range rows {
		all[i] = &rows[i]
	}
	return all
}

// ReachOptions are those on other hosts and how they are reached.
func (p *Line) ReachOptions() []*Option {
	return append(pointers(reachTable(p)), p.JobOptions("engine")...)
}
