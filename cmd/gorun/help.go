package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
)

type helpRequest struct {
	*commandLine
	text func() string
}

func helpCommand(c *commandLine) *command {
	return &command{
		request: &helpRequest{c, func() string { return dialect.Gorun.Overview(publicCommands()) }},
		Command: cli.Command{Usage: "print help on a topic or a command"},
	}
}

func (r *helpRequest) check(words []string) {
	if words == nil {
		return
	}
	if len(words) == 1 {
		if page, ok := dialect.TopicHelp(words[0], publicCommands()); ok {
			r.text = func() string { return page }
			return
		}
	}
	var commands []string
	for _, e := range commandList() {
		cmd := e.manual()
		if cmd.Description == "" { // it has no help
			continue
		}
		commands = append(commands, e.name)
		if len(words) == 1 && words[0] == e.name {
			r.text = cmd.help
			return
		}
	}
	r.refuse("no help on %s; topics: %s; commands: %s", words[0], strings.Join(dialect.Topics(), ", "),
		strings.Join(commands, ", "))
}

// hasHelp reports whether gorun help NAME prints a page.
func hasHelp(name string) bool {
	return findCommand(name) != nil || slices.Contains(dialect.Topics(), name)
}

func (r *helpRequest) run() error { return r.print(r.text()) }

// launchCommand is for help alone: main hands its command line to a dialect.
func launchCommand(*commandLine) *command {
	c, page := dialect.Launch.Manual()
	c.Usage = "start a Python script as python -m torch.distributed.launch does"
	return &command{Command: c, Page: page}
}

func completionCommand(c *commandLine) *command {
	return &command{request: &wordRequest{
		commandLine: c, atMost: 1, choices: dialect.Shells,
		refusal: "gorun completion takes the name of a shell: bash, zsh or fish",
		act:     func(shell string) error { return c.print(dialect.Gorun.Completion(shell, publicCommands())) },
	}, Command: cli.Command{
		Usage: "print a script that completes options: bash, zsh or fish",
	}}
}
