package main

import (
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/internal/printable"
	"gorun/launcher/registry"
)

func psCommand(c *commandLine) *command {
	r := &jobsRequest{commandLine: c, command: "ps"}
	r.act = r.ps
	return r.define(cli.Command{
		Usage:       "list running jobs, or the ranks of one",
		Description: "gorun ps lists your running jobs that were started on this host, or the ranks of one job.",
		Flags: c.Flags(c.group(dialect.GroupShown,
			c.jsonOption("print everything as JSON, with the ranks of all jobs"), option{
				Names: "nccl", Set: dialect.Switch(&r.nccl),
				Help: "show what NCCL 2.24 or newer reports: version, late and failed ranks",
			}, option{
				Names: "all a", Set: dialect.Switch(&r.all),
				Help: "list your last jobs, also those that have ended, and how",
			})...),
	}, shownText, "there is no such job, it has ended meanwhile, or its NCCL says nothing",
		dialect.Example{"gorun ps", "list the jobs"},
		dialect.Example{"gorun ps 7f3a", "list the ranks of one"},
		dialect.Example{"gorun ps -a", "also jobs that have ended"},
		dialect.Example{"gorun ps --nccl 7f3a", "show what NCCL reports"},
		dialect.Example{"gorun ps --json", "everything, for programs"})
}

func (r *jobsRequest) ps() error {
	switch {
	case r.nccl:
		return r.psNCCL()
	case r.all:
		return r.psAll()
	}
	named := len(r.names) > 0
	list, kind := r.found, registry.JobRequest
	if named {
		h, err := r.theJob()
		if err != nil {
			return err
		}
		list = []registry.Handle{h}
	}
	if r.JSON || named {
		kind = registry.RanksRequest
	}
	jobs := queryJobs(list, kind)
	switch {
	case len(jobs) == 0 && named:
		return registry.ErrEnded
	case named && jobs[0].err != nil:
		return jobs[0].err
	case r.JSON:
		return r.psJSON(jobs)
	case len(jobs) == 0:
		r.notify(noJobsText)
		return nil
	case named:
		return r.printLines(r.rankLines(jobs[0].Job, nil, queryGPUs(jobs[0].Job)))
	}
	return r.printLines(jobTable{show.Style(r.stdout)}.jobs(jobs, r.shortID))
}

func (r *jobsRequest) psJSON(replies []jobReply) error {
	jobs := []registry.Job{} // [] as JSON
	for _, reply := range replies {
		if reply.err != nil {
			r.notify(printable.Error(reply.err))
			continue
		}
		jobs = append(jobs, reply.Job)
	}
	return show.JSON(r.stdout, "jobs", jobList{jobs})
}

type jobList struct {
	Jobs []registry.Job `json:"jobs"` // running jobs of this user that were started on this host
}

// ncclTimeout is more than the 10 seconds that a job's hosts have to query NCCL.
const ncclTimeout = 15 * time.Second

// psNCCL prints what NCCL reports of a job.
func (r *jobsRequest) psNCCL() error {
	n, err := query[registry.NCCL](r, ncclTimeout, registry.NCCLRequest)
	if err != nil {
		return err
	}
	if r.JSON || n.Error == "" {
		err = r.printResult("nccl", n, func() string { return ncclText(n) })
	}
	if err == nil && n.Error != "" {
		return noJob("%s", printable.Text(n.Error))
	}
	return err
}

func ncclText(n registry.NCCL) string {
	lines := n.Lines
	for _, host := range n.Silent {
		lines = append(lines, "host "+host+" does not say what NCCL answers there")
	}
	for i, line := range lines {
		lines[i] = printable.Text(line)
	}
	return strings.Join(lines, "\n  ") + "\n"
}
