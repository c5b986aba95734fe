package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Doctors is the command line of gorun doctor, which starts no rank.
var Doctors = &Dialect{
	Name: "gorun doctor",
	About: "gorun doctor looks for what keeps jobs from running, slows them down, or has them fail later: limits, " +
		"memory, names, clocks, versions, GPUs, adapters, leftovers. It reads, and changes nothing.",
	examples: []example{
		{"gorun doctor", "this host, or the nodes of a resource manager's job"},
		{"gorun doctor -H node[1-4] ./trainer", "four hosts, and whether each has the program"},
		{"gorun doctor --explain shm", "what a check looks at, and why"},
	},
	tables: slices.Concat([][]Option{doctorTable}, rows(mpiTable, "host", "hostfile"),
		[][]Option{reachTable, {engineOption}}, rows(ownTable, "chdir", "verbose", "version", "help")),
	checks: true, examines: true,
	codes: []example{
		{"0", "nothing was found; notes (-v shows them) are nothing"},
		{"1", "something was found"},
		{"2", "a mistake on the command line"},
		{"125", "gorun's own error"},
	},
	last: "Every option has a variable: GORUN_HOSTFILE gives the default of --hostfile. More: docs/doctor.md.",
}

// ChecksWish is what of the checks themselves is to be told, in place of looking at hosts.
type ChecksWish struct {
	List    bool     // name all
	Explain []string // what these do, and why
}

// doctorTable holds the options of gorun doctor alone.
var doctorTable = []Option{
	{
		Names: []string{"list"}, Group: GroupLook, from: varNone,
		Help: "list all checks with what they look at, and look at nothing",
		set:  func(p *parser, a arg) error { p.inv.Checks.List = a.on; return nil },
	},
	{
		Names: []string{"explain"}, Group: GroupLook, Value: "CHECK", from: varNone,
		Help: "say what a check looks at, and why, and look at nothing; its name stands in brackets behind what it found, " +
			"and more may follow",
		set: func(p *parser, a arg) error { p.inv.Checks.Explain = append(p.inv.Checks.Explain, a.value); return nil },
	},
	{
		Names: []string{"json"}, Group: GroupLook, from: varNone,
		Help: "print all that was found of the hosts, and what is wrong with them, as JSON; with --list or --explain the " +
			"checks",
		set: func(p *parser, a arg) error { p.inv.JSON = a.on; return nil },
	},
}

// finishDoctor makes an Invocation of the options of gorun doctor.
func (p *parser) finishDoctor() (Invocation, error) {
	wish := &p.inv.Checks
	var words []string
	if app := p.inv.Spec.Apps[0]; app.Args != nil {
		words = append([]string{app.Program}, app.Args...)
	}
	switch {
	case wish.List && wish.Explain != nil:
		p.problem(errors.New("--list and --explain contradict each other: the one tells of all checks, the other of those " +
			"that are named"))
	case wish.List && words != nil:
		p.problem(fmt.Errorf("--list names all checks: gorun doctor --explain %s tells of single ones",
			strings.Join(words, " ")))
	}
	if wish.List || wish.Explain != nil {
		if wish.Explain != nil {
			wish.Explain = append(wish.Explain, words...)
		}
		if p.problems != nil {
			return Invocation{}, &UsageError{p.problems, p.dialect}
		}
		p.inv.Spec.Apps = nil
	} else {
		p.noteAsArguments(words, "--json", "--list", "--explain")
		p.settleReach()
		p.finishHosts()
		p.finishReach()
		if app := &p.inv.Spec.Apps[0]; app.Program == "" {
			p.inv.Spec.Apps = nil
		} else {
			p.inv.Spec.Dir, app.Dir = app.Dir, ""
		}
	}
	p.noteStrangers()
	if p.problems != nil {
		return Invocation{}, &UsageError{p.problems, p.dialect}
	}
	p.inv.Action = Doctor
	return p.inv, nil
}
