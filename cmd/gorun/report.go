package main

import (
	"os"
	"strings"
	"time"

	"gorun/cmd/gorun/internal/show"
	"gorun/env/plan"
	"gorun/launcher"
	"gorun/launcher/job"
)

// reportJSON is the document of --report.
type reportJSON struct {
	Command []string `json:"command"` // the command line, with secrets hidden
	// Hosts are the job's nodes or, if it was not planned, the hosts of the command line.
	Hosts     []string  `json:"hosts"`
	WorldSize int       `json:"world_size"` // number of ranks
	StartedAt time.Time `json:"started_at"` // when gorun started
	EndedAt   time.Time `json:"ended_at"`   // when the last rank ended
	*launcher.Result
}

// newReport takes a nil plan for a job that was not planned.
func newReport(spec launcher.Spec, p *job.Plan, result *launcher.Result, began time.Time) reportJSON {
	r := reportJSON{
		Command: plan.HideSecrets(os.Args), Hosts: []string{}, WorldSize: len(result.Ranks), StartedAt: began,
		EndedAt: time.Now(), Result: result,
	}
	if result.Ranks == nil {
		result.Ranks = []job.RankEnd{} // [] as JSON
	}
	if p == nil {
		for _, h := range spec.Hosts {
			r.Hosts = append(r.Hosts, h.Name)
		}
		return r
	}
	r.Hosts, r.WorldSize = p.Hosts(), len(p.Ranks)
	return r
}

// writeReport writes the report to --report's file, if any, and returns the exit code.
func writeReport(file string, report reportJSON) int {
	code := report.ExitCode
	if file == "" {
		return code
	}
	var text strings.Builder
	err := show.JSON(&text, "report", report)
	if err == nil {
		err = writeTo(file, text.String())
	}
	notifyError("--report", err)
	if err != nil && code == 0 {
		return job.ExitLauncher
	}
	return code
}
