package dialect

import (
	"errors"
)

// Hosts is the command line of gorun hosts check, which starts no rank.
var Hosts = &Dialect{
	Name: "gorun hosts",
	About: "gorun hosts check looks at hosts as a job on them would find them: whether each is reached, what runs " +
		"there, its clock, disk, limits and GPUs, PROGRAM where one is named, who reaches whom, and what those ways carry " +
		"and lose.",
	examples: []example{
		{"gorun hosts check -H node[1-4]", "four hosts"},
		{"gorun hosts check -H n1,n2 ./trainer", "and whether each has the program"},
	},
	tables: append(append(rows(mpiTable, "host", "hostfile"), reachTable),
		append([][]Option{{engineOption}, checkTable}, rows(ownTable, "chdir", "verbose", "version", "help")...)...),
	checks: true,
	codes: []example{
		{"0", "nothing is wrong"},
		{"1", "something is wrong with a host"},
		{"2", "a mistake on the command line"},
		{"125", "gorun's own error"},
	},
	last: "Every option has a variable: GORUN_HOSTFILE gives the default of --hostfile.",
}

// checkTable are the options that mean something else than for a job.
var checkTable = []Option{
	{
		Names: []string{"json"}, Group: GroupLook, from: varNone,
		Help: "print everything as JSON in place of the tables",
		set:  func(p *parser, a arg) error { p.inv.JSON = a.on; return nil },
	},
	{
		Names: []string{"quiet", "q"}, Group: GroupLook, family: familyLoudness,
		Help: "print problems alone, and nothing where nothing is wrong",
		set:  func(p *parser, a arg) error { p.inv.Quiet = a.on; return nil },
	},
}

// hostsCommand takes the one thing that can be done with hosts.
func hostsCommand(args []string, around Surroundings) (Invocation, error) {
	if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
		return Invocation{Action: Help, Dialect: Hosts}, nil
	}
	if len(args) == 0 || args[0] != "check" {
		return Invocation{},
			usage(Hosts, errors.New("gorun hosts has one command: gorun hosts check -H HOST,...; gorun ./hosts starts a "+
				"program of that name"))
	}
	return Hosts.parse(args[1:], around)
}

// finishHostsCheck makes an Invocation of the options of gorun hosts check.
func (p *parser) finishHostsCheck() (Invocation, error) {
	p.settleReach()
	p.finishHosts()
	p.finishReach()
	if !p.hostsGiven() && !p.engine.hosts {
		p.problem(errors.New("no hosts given: gorun hosts check -H HOST,..., or --hostfile FILE"))
	}
	if app := &p.inv.Spec.Apps[0]; app.Program == "" {
		p.inv.Spec.Apps = nil
	} else {
		p.inv.Spec.Dir, app.Dir = app.Dir, ""
	}
	p.noteStrangers()
	if p.problems != nil {
		return Invocation{}, &UsageError{p.problems, p.dialect}
	}
	p.inv.Action = HostsCheck
	return p.inv, nil
}

// agentCommand is what a head starts on another host; it may say how.
func agentCommand(args []string, _ Surroundings) (Invocation, error) {
	inv := Invocation{Action: Agent, Dialect: Gorun}
	switch len(args) {
	case 0:
	case 1:
		inv.Wished = args[0]
	default:
		return Invocation{},
			usage(Gorun, errors.New("gorun agent is what gorun starts on other hosts; gorun ./agent starts a program of that "+
				"name"))
	}
	return inv, nil
}
