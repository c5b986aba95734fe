package dialect

import (
	"errors"
	"fmt"

	"gorun/launcher/job"
)

// Token is the command line of gorun token, which has no program.
var Token = &Dialect{
	Name: "gorun token",
	About: "gorun token prints a new token: a secret of 256 bits by which the nodes of a job that are started one by " +
		"one know each other.",
	examples: []example{
		{"gorun token --save", "once, where nodes share your home directory: nodes that join find it"},
		{"gorun token --out job.token", "in a file that only you can read"},
		{"gorun --nnodes 2 --node-rank 0 --token-file job.token …", "uses it, on each node"},
	},
	tables: append([][]Option{tokenTable}, rows(ownTable, "version", "help")...),
	serves: true, tokens: true,
	codes: []example{
		{"0", "it was made"},
		{"2", "a mistake on the command line"},
		{"125", "it could not be written, or the file exists"},
	},
	last: "A token belongs neither on a command line nor into a log: whoever has it can join the job. More: docs/join.md.",
}

// tokenTable holds the options of gorun token alone.
var tokenTable = []Option{{
	Names: []string{"out"}, Group: GroupOutput, Value: "FILE", from: varNone,
	Help: "write it to a new file with mode 0600 instead of standard output; a file that exists is left alone",
	set:  func(p *parser, a arg) error { return text(&p.inv.Wished, a) },
}, {
	Names: []string{"save"}, Group: GroupOutput, from: varNone,
	Help: "write it to ~/.config/gorun/token, where your nodes look for it",
	set:  func(p *parser, a arg) error { p.inv.Saved = a.on; return nil },
}}

// finishToken makes an Invocation of the options of gorun token.
func (p *parser) finishToken() (Invocation, error) {
	if app := p.inv.Spec.Apps[0]; app.Args != nil {
		p.problem(fmt.Errorf("%s: %s takes no arguments; gorun ./token starts a program of that name",
			typed([]string{app.Program}), p.dialect.Name))
	}
	if own := ownTokenFile(p.around); p.inv.Saved {
		switch {
		case p.inv.Wished != "":
			p.problem(errors.New("--save and --out both say where: keep one"))
		case own == "":
			p.problem(errors.New("--save: neither XDG_CONFIG_HOME nor HOME is set: use --out FILE"))
		}
		p.inv.Wished = own
	}
	if p.problems != nil {
		return Invocation{}, &UsageError{p.problems, p.dialect}
	}
	p.inv.Action, p.inv.Spec = MakeToken, job.Spec{}
	return p.inv, nil
}
