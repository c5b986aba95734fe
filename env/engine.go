package env

import (
	"slices"
	"strings"
)

// engineJobs lists the variables that identify a resource manager's job. A row's names together form one
// identifier; beside must be set too.
var engineJobs = [...]struct {
	engine string // value of --engine
	names  []string
	beside string
}{
	{engine: "flux", names: []string{"FLUX_URI", "FLUX_JOB_ID"}}, // a Flux instance and one of its jobs
	{engine: "slurm", names: []string{"SLURM_JOB_ID"}},
	{engine: "pbs", names: []string{"PBS_JOBID"}},
	{engine: "lsf", names: []string{"LSB_JOBID"}},
	{engine: "sge", names: []string{"JOB_ID"}, beside: "SGE_ROOT"},
	{engine: "aws-batch", names: []string{"AWS_BATCH_JOB_ID"}},
}

// EngineJob returns the resource manager job of a process, read from its environment: "slurm:17", or "" for
// none. Several jobs are joined with commas, as in "flux:local:///run/flux,slurm:17". lookup returns a
// variable of that environment.
func EngineJob(lookup func(name string) (string, bool)) string {
	return strings.Join(engineJobsOf(lookup), ",")
}

// IdentifiesEngineJob reports whether [EngineJob] reads a variable.
func IdentifiesEngineJob(name string) bool {
	for i := range engineJobs {
		if row := &engineJobs[i]; name == row.beside && name != "" || slices.Contains(row.names, name) {
			return true
		}
	}
	return false
}

func engineJobsOf(lookup func(name string) (string, bool)) (jobs []string) {
	for i := range engineJobs {
		row := &engineJobs[i]
		if beside, _ := lookup(row.beside); row.beside != "" && beside == "" {
			continue
		}
		var words []string
		for _, name := range row.names {
			if value, _ := lookup(name); value != "" {
				words = append(words, value)
			}
		}
		if len(words) > 0 {
			jobs = append(jobs, row.engine+":"+strings.Join(words, "/"))
		}
	}
	return jobs
}

// Marked returns an environment's [VarJob], or "" if the process does not belong to that job. A batch job
// submitted by a rank inherits the rank's environment, but belongs to the resource manager alone. Its
// resource manager job differs from the rank's [VarJobEngine]. A process that dropped the resource manager's
// variables still belongs to the rank's job.
func Marked(lookup func(name string) (string, bool)) string {
	job, _ := lookup(VarJob)
	if job == "" {
		return ""
	}
	engine, _ := lookup(VarJobEngine)
	ranks := strings.Split(engine, ",")
	for _, own := range engineJobsOf(lookup) {
		if !slices.Contains(ranks, own) {
			return ""
		}
	}
	return job
}
