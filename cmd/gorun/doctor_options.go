package main

import (
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
)

// doctorOptions are those of gorun doctor: which hosts, how they are reached, and a program, or none (Spec); or what of
// the checks themselves is to be told.
type doctorOptions struct {
	*call
	list    bool     // name all checks
	explain []string // what these do, and why
}

func doctorCommand(c *call) *command {
	o := &doctorOptions{call: c}
	flags := own(dialect.GroupLook, option{
		Names: []string{"list"}, Set: dialect.Switch(&o.list),
		Help: "list all checks with what they look at, and look at nothing",
	}, option{
		Names: []string{"explain"}, Value: "CHECK", Set: added(&o.explain),
		Help: "say what a check looks at, and why, and look at nothing; its name stands in brackets behind what it found, " +
			"and more may follow",
	}, c.jsonOption("print all that was found of the hosts, and what is wrong with them, as JSON; with --list or "+
		"--explain the checks"))
	flags = append(append(flags, c.JobOptions("host", "hostfile")...), c.ReachOptions()...)
	return &command{
		request: o,
		arrange: func(args []string) []string { return c.askedFirst(args, "list", "explain") },
		Command: cli.Command{
			Usage: "look for what is wrong with this host, or with others",
			Description: "gorun doctor looks for what keeps jobs from running, slows them down, or has them fail later: " +
				"limits, memory, names, clocks, versions, GPUs, adapters, leftovers. It reads, and changes nothing.",
			UsageText: "gorun doctor [options] [PROGRAM]",
			Flags:     c.Flags(append(flags, c.JobOptions("chdir", "verbose")...)...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun doctor", "this host, or the nodes of a resource manager's job"},
				{"gorun doctor -H node[1-4] ./trainer", "four hosts, and whether each has the program"},
				{"gorun doctor --explain shm", "what a check looks at, and why"},
			},
			Codes: []dialect.Example{
				{"0", "nothing was found; notes (-v shows them) are nothing"},
				{"1", "something was found"},
				{"2", "a mistake on the command line"},
				{"125", "gorun's own error"},
			},
			Last: "Every option has a variable: GORUN_HOSTFILE gives the default of --hostfile. More: docs/doctor.md.",
		},
	}
}

func (o *doctorOptions) check(words []string) {
	switch {
	case o.list && o.explain != nil:
		o.problem("--list and --explain contradict each other: the one tells of all checks, the other of those that " +
			"are named")
	case o.list && words != nil:
		o.problem("--list names all checks: gorun doctor --explain %s tells of single ones", strings.Join(words, " "))
	case o.explain != nil:
		o.explain = append(o.explain, words...)
	case !o.list:
		o.NoteAsArguments(words, "--json", "--list", "--explain")
		o.FinishHosts()
	}
	o.NoteStrangers()
}
