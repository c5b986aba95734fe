package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/printable"
	"gorun/launcher/registry"
)

func stacksCommand(c *commandLine) *command {
	r := &jobsRequest{commandLine: c, command: "stacks"}
	r.act = r.stacks
	return r.define(cli.Command{
		Usage: "show what each rank of a job does right now",
		Description: "gorun stacks shows what each rank of a job does right now; ranks that do the same share a line. The " +
			"ranks keep running. Python before 3.11 needs py-spy (`pip install py-spy`), C and C++ need eu-stack of elfutils.",
		Flags: c.Flags(c.group(dialect.GroupShown, r.rankOption())...),
	}, shownText, noJobText,
		dialect.Example{"gorun stacks", "the only running job"},
		dialect.Example{"gorun stacks 7f3a --rank 3", "one rank of a job"})
}

// stacksTimeout bounds the inspection of all ranks.
const stacksTimeout = 30 * time.Second

func (r *jobsRequest) stacks() error {
	reply, err := query[registry.Reply](r, stacksTimeout, registry.StacksRequest)
	switch {
	case err != nil:
		return err
	case reply.Error != "":
		return noJob("%s", reply.Error)
	}
	for i, line := range reply.Lines {
		reply.Lines[i] = printable.Text(line)
	}
	return r.printLines(reply.Lines)
}
