package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/internal/printable"
	"gorun/launcher/hosts"
	"gorun/launcher/quarantine"
)

// quarantineFile has the hosts that failed in the user's jobs.
func quarantineFile() string { return quarantine.Path(os.Getenv("XDG_STATE_HOME"), os.Getenv("HOME")) }

// quarantineOptions are those of gorun hosts quarantine.
type quarantineOptions struct {
	*commandLine
	verb   string   // "": list
	names  []string // of hosts
	period time.Duration
	reason string
}

func quarantineCommand(c *commandLine) *command {
	o := &quarantineOptions{commandLine: c, period: quarantine.Duration, reason: "added by gorun hosts quarantine"}
	return &command{
		request: o,
		arrange: func(args []string) []string { return c.MoveOptionsFirst(args[1:], nil) },
		Command: cli.Command{
			Usage: "list the hosts that failed in your jobs, and those that get no ranks for a while",
			Description: fmt.Sprintf("A host that failed %d times within %.0f h is in quarantine for %.0f h: jobs that can do "+
				"without it (--min-nodes, --spares) leave it out. A lost host and a failed --check are failures, a host that "+
				"cannot be reached is not. Only such jobs count them.",
				quarantine.Limit, quarantine.Window.Hours(), quarantine.Duration.Hours()),
			UsageText: "gorun hosts quarantine [lift HOST,...|add HOST,...]",
			Flags: c.Flags(c.group(dialect.GroupLook, option{
				Names: "for", Value: "D", Set: dialect.Parsed(&o.period, dialect.ParseDuration),
				Help: fmt.Sprintf("add for D (%.0fh)", quarantine.Duration.Hours()),
			}, option{
				Names: "reason", Value: "TEXT", Set: dialect.Text(&o.reason), Help: "add for this reason",
			}, c.jsonOption("print the list as JSON"))...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun hosts quarantine", "list hosts with failures"},
				{"gorun hosts quarantine lift node3", "let it have ranks again, and forget its failures"},
				{"gorun hosts quarantine add node[1-2] --for 2h --reason 'new cables'", "leave out two hosts"},
			},
			Codes: []dialect.Example{
				{"0", "done"},
				{"1", "a host to lift is not in the list"},
				{"2", "a mistake on the command line"},
				{"125", "the file cannot be read or written"},
			},
			Last: "The file is ~/.local/state/gorun/hosts.json. More: docs/failures.md.",
		},
	}
}

func (o *quarantineOptions) check(words []string) {
	if len(words) == 0 {
		return
	}
	if o.verb = words[0]; !slices.Contains([]string{"lift", "add"}, o.verb) || len(words) < 2 {
		o.refuse("gorun hosts quarantine lists hosts; gorun hosts quarantine lift HOST,... and add HOST,... change the list")
		return
	}
	for _, word := range words[1:] {
		names, err := hosts.Expand(word)
		if err != nil {
			o.Problem(err)
		}
		o.names = append(o.names, names...)
	}
}

// quarantineJSON is the list of hosts.
type quarantineJSON struct {
	Hosts []quarantine.Host `json:"hosts"` // those that failed, or are in quarantine, by name
}

func (o *quarantineOptions) run() (err error) {
	file, now := quarantineFile(), time.Now()
	if file == "" {
		return errors.New("neither XDG_STATE_HOME nor HOME is set: no failures are kept")
	}
	var unknown []string
	switch o.verb {
	case "add":
		err = quarantine.Add(file, o.names, o.reason, now.Add(o.period), now)
	case "lift":
		unknown, err = quarantine.Lift(file, o.names, now)
	}
	if err != nil {
		return printable.Unwritten(file, err)
	}
	for _, name := range unknown {
		o.notify(name + " is not in the list")
	}
	if o.verb != "" {
		return exitWith(min(len(unknown), 1))
	}
	list, err := quarantine.Read(file, now)
	if err != nil {
		return err
	}
	return o.printResult("quarantine", quarantineJSON{append([]quarantine.Host{}, list...)}, func() string {
		rows := [][]string{{"host", "until", "failures", "reason"}}
		for _, h := range list {
			until := "-"
			if !h.Until.IsZero() {
				until = h.Until.Local().Format(quarantine.TimeFormat)
			} else {
				h.Reason = h.Failures[len(h.Failures)-1].Text
			}
			rows = append(rows, []string{
				printable.Text(h.Name), until, fmt.Sprint(len(h.Failures)), printable.Text(h.Reason),
			})
		}
		if len(list) == 0 {
			return "no host failed lately\n"
		}
		return show.Table(rows, show.Width(o.stdout))
	})
}
