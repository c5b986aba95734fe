package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/printable"
	"gorun/launcher/registry"
)

func stacksCommand(c *call) *command {
	r := &jobsRequest{call: c, Command: "stacks"}
	r.act = r.stacks
	return r.command(cli.Command{
		Usage: "say what each rank of a job does right now",
		Description: "gorun stacks says what each rank of a job does right now, ranks that do the same in one line. The " +
			"ranks go on; Python's frames are shown where py-spy is installed.",
		Flags: c.Flags(own(dialect.GroupShown, r.rankOption())...),
	}, wasShown, jobIsNone,
		dialect.Example{"gorun stacks", "the only job there is"},
		dialect.Example{"gorun stacks 7f3a --rank 3", "one rank of a job"})
}

// stacksPatience is how long looking into all ranks may take.
const stacksPatience = 30 * time.Second

// stacks prints what ranks do right now.
func (r *jobsRequest) stacks() error {
	w, err := askOne[registry.Reply](r, stacksPatience, registry.Request{Kind: registry.StacksRequest, Rank: r.Rank})
	switch {
	case err != nil:
		return err
	case w.Error != "":
		return noJob("%s", w.Error)
	}
	for i, line := range w.Lines {
		w.Lines[i] = printable.Text(line)
	}
	return r.print(w.Lines)
}
