package env

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func environ(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func TestEngineJob(t *testing.T) {
	for want, pairs := range map[string][]string{
		"":                                    {"PATH", "/bin", "JOB_ID", "7", "SLURM_JOB_ID", ""},
		"slurm:17":                            {"SLURM_JOB_ID", "17", "SLURM_STEP_ID", "0"},
		"sge:7":                               {"SGE_ROOT", "/opt/sge", "JOB_ID", "7"},
		"flux:local:///run/flux,slurm:17":     {"FLUX_URI", "local:///run/flux", "SLURM_JOB_ID", "17"},
		"flux:local:///run/flux/f2Z,slurm:17": {"FLUX_URI", "local:///run/flux", "FLUX_JOB_ID", "f2Z", "SLURM_JOB_ID", "17"},
		"pbs:17.head,lsf:3":                   {"PBS_JOBID", "17.head", "LSB_JOBID", "3"},
	} {
		require.Equal(t, want, EngineJob(environ(pairs...)))
	}
}

func TestMarked(t *testing.T) {
	for _, c := range []struct {
		pairs []string
		want  string
	}{
		{nil, ""},
		{[]string{"SLURM_JOB_ID", "17"}, ""},
		{[]string{VarJob, "a:b"}, "a:b"},
		{[]string{VarJob, "a", VarJobEngine, "slurm:17", "SLURM_JOB_ID", "17"}, "a"},
		{[]string{VarJob, "a", VarJobEngine, "slurm:17", "SLURM_JOB_ID", "18"}, ""},   // sbatch in a rank
		{[]string{VarJob, "a", "SLURM_JOB_ID", "18"}, ""},                             // unknown to VarJobEngine
		{[]string{VarJob, "a", VarJobEngine, "slurm:17"}, "a"},                        // env -u SLURM_JOB_ID
		{[]string{VarJob, "", VarJobEngine, "slurm:17", "SLURM_JOB_ID", "17"}, ""},    // no marker
		{[]string{VarJob, "a", VarJobEngine, "", "SLURM_JOB_ID", "", "X", "17"}, "a"}, // empty means unset
		{[]string{VarJob, "a", VarJobEngine, "pbs:3,lsf:1", "LSB_JOBID", "1"}, "a"},
		{[]string{VarJob, "a", VarJobEngine, "pbs:3,lsf:1", "PBS_JOBID", "3", "LSB_JOBID", "2"}, ""}, // one of two differs
	} {
		require.Equal(t, c.want, Marked(environ(c.pairs...)), c.pairs)
	}
}
