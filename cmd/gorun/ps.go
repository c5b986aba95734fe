package main

import (
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/printable"
	"gorun/launcher/registry"
)

func psCommand(c *call) *command {
	r := &jobsRequest{call: c, Command: "ps"}
	r.act = r.ps
	return r.command(cli.Command{
		Usage:       "list the jobs that run, or the ranks of one",
		Description: "gorun ps lists the jobs of this user that were started on this host; of one job it lists the ranks.",
		Flags: c.Flags(own(dialect.GroupShown, c.jsonOption("print everything as JSON, the ranks of all jobs, too"), option{
			Names: []string{"nccl"}, Set: dialect.Switch(&r.NCCL),
			Help: "what NCCL (2.24 and later) itself says of a job: its version, which ranks are behind, do not answer or " +
				"report an error",
		})...),
	}, wasShown, "there is no such job, it has ended meanwhile, or its NCCL says nothing",
		dialect.Example{"gorun ps", "the jobs"},
		dialect.Example{"gorun ps 7f3a", "the ranks of one"},
		dialect.Example{"gorun ps --nccl 7f3a", "what NCCL says of it"},
		dialect.Example{"gorun ps --json", "everything, for programs"})
}

// ps lists the jobs, or the ranks of one.
func (r *jobsRequest) ps() error {
	if r.NCCL {
		return r.nccl()
	}
	list := r.found
	if len(r.Names) > 0 {
		f, err := r.one()
		if err != nil {
			return err
		}
		list = []registry.Handle{f}
	}
	question := registry.JobRequest
	if r.JSON || len(r.Names) > 0 {
		question = registry.RanksRequest
	}
	jobs := askAll(list, question)
	switch {
	case len(jobs) == 0 && len(r.Names) > 0:
		return registry.ErrEnded
	case len(r.Names) > 0 && jobs[0].err != nil:
		return jobs[0].err
	case r.JSON:
		return r.psJSON(jobs)
	case len(jobs) == 0:
		say(r.stderr, nothingRuns)
		return nil
	case len(r.Names) > 0:
		v := newJobView(textStyle(r.stdout))
		return r.print(append([]string{v.title(jobs[0].Job, r.short(jobs[0].ID)), ""},
			v.ranks(jobs[0].Job, nil, askGPUs(jobs[0].Job))...))
	}
	return r.print(newJobView(textStyle(r.stdout)).jobs(jobs, r.short))
}

// psJSON prints all that jobs said.
func (r *jobsRequest) psJSON(jobs []jobAnswer) error {
	said := []registry.Job{}
	for _, a := range jobs {
		if a.err != nil {
			say(r.stderr, a.err.Error())
			continue
		}
		said = append(said, a.Job)
	}
	return r.show(said, nil)
}

// ncclPatience is how long a job may take to say what NCCL says: its hosts have 10 seconds.
const ncclPatience = 15 * time.Second

// nccl prints what NCCL itself says of a job.
func (r *jobsRequest) nccl() error {
	n, err := askOne[registry.NCCL](r, ncclPatience, registry.Request{Kind: registry.NCCLRequest})
	if err != nil {
		return err
	}
	if r.JSON || n.Error == "" {
		err = r.show(n, func() string { return strings.Join(ncclText(n), "\n") + "\n" })
	}
	if err == nil && n.Error != "" {
		return noJob("%s", printable.Text(n.Error))
	}
	return err
}

// ncclText are the lines for people.
func ncclText(n registry.NCCL) (lines []string) {
	for i, line := range n.Lines {
		if i > 0 {
			line = "  " + line
		}
		lines = append(lines, printable.Text(line))
	}
	for _, host := range n.Silent {
		lines = append(lines, "  host "+printable.Text(host)+" does not say what NCCL answers there")
	}
	return lines
}
