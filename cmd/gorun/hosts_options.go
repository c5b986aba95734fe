package main

import (
	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
)

// hostsOptions are those of gorun hosts check: which hosts, how they are reached, and a program, or none (Spec).
type hostsOptions struct {
	*call
	isCheck bool // it is the one thing that can be done with hosts
}

func hostsCommand(c *call) *command {
	o := &hostsOptions{call: c}
	flags := c.Flags(append(append(c.JobOptions("host", "hostfile"), c.ReachOptions()...),
		append(own(dialect.GroupLook, c.jsonOption("print everything as JSON in place of the tables")), &option{
			Names: []string{"quiet", "q"}, Group: dialect.GroupLook, Set: dialect.Switch(&c.Quiet),
			Help: "print problems alone, and nothing where nothing is wrong",
		})...)...)
	return &command{
		request: o,
		arrange: o.behindCheck,
		Command: cli.Command{
			Usage: "hosts check: look at hosts as a job on them would find them",
			Description: "gorun hosts check looks at hosts as a job on them would find them: whether each is reached, what " +
				"runs there, its clock, disk, limits and GPUs, PROGRAM where one is named, who reaches whom, and what those " +
				"ways carry and lose.",
			UsageText: "gorun hosts check [options] [PROGRAM]",
			Flags:     append(flags, c.Flags(c.JobOptions("chdir", "verbose")...)...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun hosts check -H node[1-4]", "four hosts"},
				{"gorun hosts check -H n1,n2 ./trainer", "and whether each has the program"},
			},
			Codes: []dialect.Example{
				{"0", "nothing is wrong"},
				{"1", "something is wrong with a host"},
				{"2", "a mistake on the command line"},
				{"125", "gorun's own error"},
			},
			Last: "Every option has a variable: GORUN_HOSTFILE gives the default of --hostfile.",
		},
	}
}

// behindCheck takes what follows the word check; without it only help may be asked for.
func (o *hostsOptions) behindCheck(args []string) []string {
	if len(args) > 0 && args[0] == "check" {
		o.isCheck = true
		return args[1:]
	}
	if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
		return args[:1]
	}
	return nil
}

func (o *hostsOptions) check([]string) {
	if !o.isCheck {
		o.problem("gorun hosts has one command: gorun hosts check -H HOST,...; gorun ./hosts starts a program of that name")
		return
	}
	o.FinishHosts()
	if !o.HasHosts() {
		o.problem("no hosts given: gorun hosts check -H HOST,..., or --hostfile FILE")
	}
	o.NoteStrangers()
}
