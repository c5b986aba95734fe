package main

import (
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
)

// helpRequest is a call of gorun help.
type helpRequest struct {
	*call
	text func() string
}

func helpCommand(c *call) *command {
	return &command{
		request: &helpRequest{c, func() string { return dialect.Gorun.Help(manuals()) }},
		Command: cli.Command{Usage: "print help, also of another of these commands"},
	}
}

// check finds the command whose help is meant.
func (r *helpRequest) check(words []string) {
	if words == nil {
		return
	}
	var names []string
	for _, e := range commandList() {
		cmd := newCall(dialect.Surroundings{}, nil, nil, nil).make(e)
		if cmd.Description == "" { // there is nothing to say of it
			continue
		}
		names = append(names, e.name)
		if len(words) == 1 && words[0] == e.name {
			r.text = cmd.help
			return
		}
	}
	r.problem("no help on %s; there is gorun help, and gorun help %s and %s", words[0],
		strings.Join(names[:len(names)-1], ", "), names[len(names)-1])
}

func (r *helpRequest) run() error { return r.write(r.text()) }

// launchCommand is a dialect of its own by the name of a command: main has it read its words.
func launchCommand(*call) *command {
	c, page := dialect.Launch.Manual()
	c.Usage = "start a Python script as python -m torch.distributed.launch does"
	return &command{Command: c, Page: page}
}

func completionCommand(c *call) *command {
	r := &wordRequest{
		call: c, most: 1, choices: dialect.Shells,
		refusal: "gorun completion takes the name of a shell: bash, zsh or fish",
	}
	r.act = func(shell string) error { return c.write(dialect.Gorun.Completion(shell, manuals())) }
	return &command{request: r, Command: cli.Command{
		Usage: "print a script that completes options: bash, zsh or fish",
	}}
}
