package env

import (
	"slices"
	"strings"
)

// engineJobs are the variables by which resource managers tell all processes of a job
// which one that is. Those of a row are one word together; beside has to be set, too.
var engineJobs = [...]struct {
	engine string // as --engine takes it
	names  []string
	beside string
}{
	{engine: "flux", names: []string{"FLUX_URI", "FLUX_JOB_ID"}}, // an instance, and one of its jobs
	{engine: "slurm", names: []string{"SLURM_JOB_ID"}},
	{engine: "pbs", names: []string{"PBS_JOBID"}},
	{engine: "lsf", names: []string{"LSB_JOBID"}},
	{engine: "sge", names: []string{"JOB_ID"}, beside: "SGE_ROOT"},
	{engine: "aws-batch", names: []string{"AWS_BATCH_JOB_ID"}},
}

// EngineJob says by an environment in which job of a resource manager its process is:
// "slurm:17", of several "flux:local:///run/flux,slurm:17"; "" for none. lookup returns a
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

// Marked returns an environment's [VarJob], unless that says nothing of its process: a
// batch job that a rank submits inherits the rank's environment, and belongs to the
// resource manager alone. It is known by being in another job of that than [VarJobEngine]
// says of the rank; a process that dropped such variables is the rank's still.
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
