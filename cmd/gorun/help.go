package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
)

type helpRequest struct {
	*commandLine
	page string
}

func helpCommand(c *commandLine) *command {
	return &command{
		request: &helpRequest{commandLine: c},
		Command: cli.Command{
			Usage:       "print help on a topic or a command",
			Description: "gorun help prints help on a topic or a command; without either, it shows what there is.",
			UsageText:   "gorun help [TOPIC|COMMAND]",
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun help placement", "explain a topic"},
				{"gorun help doctor", "explain a command, as gorun doctor --help"},
				{"gorun help all", "list all options of jobs"},
			},
			Codes: []dialect.Example{{"0", "help was printed"}, {"2", "a mistake on the command line"}},
			Last:  "Topics: " + strings.Join(dialect.Topics(), ", ") + ".",
		},
	}
}

func (r *helpRequest) check(words []string) {
	if words == nil {
		r.page = dialect.Gorun.Overview(publicCommands())
		return
	}
	if r.page = helpPage(words); r.page != "" {
		return
	}
	nearest := dialect.NearestName(words[0], append(dialect.Topics(), commandNames()...))
	r.Problem(dialect.HelpNeeded(fmt.Errorf("help: %s: no such topic or command", dialect.Typed(words)),
		strings.TrimSuffix("gorun help "+nearest, " ")))
}

// helpPage returns the help on a topic or on a command, or "". The page on hosts is the topic's: it names the only
// subcommand.
func helpPage(words []string) string {
	name := strings.Join(words, " ")
	if page, ok := dialect.TopicHelp(name, publicCommands()); ok {
		return page
	}
	if name == "hosts check" {
		name = "hosts"
	}
	if e := findCommand(name); e != nil {
		if cmd := e.manual(); cmd.Description != "" {
			return cmd.help()
		}
	}
	return ""
}

// helpWords returns the words of `gorun help` that a command line means which has --help before or after a command:
// gorun --help doctor, gorun doctor --help.
func helpWords(args []string) (words []string, ok bool) {
	isHelp := func(word string) bool { return word == "--help" || word == "-h" }
	switch last := len(args) - 1; {
	case last < 1:
		return nil, false
	case isHelp(args[0]):
		words = args[1:]
	case isHelp(args[last]) && findCommand(args[0]) != nil:
		words = args[:last]
	}
	return words, words != nil && helpPage(words) != ""
}

func (r *helpRequest) run() error { return r.print(r.page) }

// launchCommand and runCommand are for help alone: main hands their command lines to a dialect.
func launchCommand(*commandLine) *command {
	return dialectCommand(dialect.Launch, "start a Python script as python -m torch.distributed.launch does")
}

func runCommand(*commandLine) *command {
	return dialectCommand(dialect.Run, "start a program that is named like a command")
}

func dialectCommand(d *dialect.Dialect, usage string) *command {
	c, page := d.Manual()
	c.Usage = usage
	return &command{Command: c, Page: page}
}
