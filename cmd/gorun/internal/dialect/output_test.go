package dialect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/job"
)

// TestLabels: labels of lines, by the options of each launcher.
func TestLabels(t *testing.T) {
	for line, want := range map[string]string{
		"mpirun --tag-output x":                                         "[1,%r]<%s>:",
		"mpirun --mca orte_tag_output 1 x":                              "[1,%r]<%s>:",
		"mpirun --timestamp-output x":                                   "%t<%s>:",
		"orterun -timestamp-output -tag-output x":                       "%t[1,%r]<%s>:",
		"mpirun --output tag x":                                         "[1,%r]<%s>: ",
		"mpirun --output TAG,timestamp x":                               "[%t][1,%r]<%s>: ",
		"mpirun --output rank --output timestamp x":                     "[%t][%r]<%s>: ",
		"mpirun --output timestamp x":                                   "[%t]<%s>: ",
		"mpiexec -l x":                                                  "[%r] ",
		"mpiexec -prepend-rank -prepend-timestamp x":                    "%t [%r] ",
		"gorun -l --timestamp-output x":                                 "%t [%r] ",
		"gorun --prepend-timestamp x":                                   "%t ",
		"mpiexec -prepend-pattern [%r@%h:%g]_ x":                        "[%r@%h:%g]_",
		"mpiexec -prepend-pattern [%r]_ --output timestamp x":           "[%t] [%r]_",
		"gorun --tag-output --tag-output -l --merge-stderr-to-stdout x": "[1,%r]<%s>:",
	} {
		out := mustParse(t, line).Spec.Output
		require.Equal(t, want, out.Pattern, line)
		require.Equal(t, job.LabelAlways, out.Label, line)
		require.Equal(t, strings.Contains(line, "merge"), out.Merge)
	}
	require.Equal(t, job.OutputSpec{Label: job.LabelAlways}, mustParse(t, "gorun -l x").Spec.Output,
		"gorun's own label has colours on a terminal")
}

// TestFileNames: streams, their files, and whether they are also shown.
func TestFileNames(t *testing.T) {
	both, one := job.StreamMap{All: job.Stdout | job.Stderr}, func(s job.Streams) job.StreamMap {
		return job.StreamMap{All: s}
	}
	for line, want := range map[string]job.OutputSpec{
		"mpirun --output-filename 5% x": {
			StdoutFile: "5%%/1/rank.%R/stdout", StderrFile: "5%%/1/rank.%R/stderr", Tee: both,
		},
		"mpirun --output-filename d:NOCOPY x": {
			StdoutFile: "d/1/rank.%R/stdout", StderrFile: "d/1/rank.%R/stderr", Redirect: both,
		},
		"mpirun --output-filename d:nojobid,nocopy x": {
			StdoutFile: "d/rank.%R/stdout", StderrFile: "d/rank.%R/stderr", Redirect: both,
		},
		"mpirun --output-filename d:nojobid x": {
			StdoutFile: "d/rank.%R/stdout", StderrFile: "d/rank.%R/stderr", Tee: both,
		},
		"mpirun --output dir=d:nocopy x": {
			StdoutFile: "d/1/rank.%R/stdout", StderrFile: "d/1/rank.%R/stderr", Redirect: both,
		},
		"mpirun --output file=n x": {
			StdoutFile: "n.1.%r.out", StderrFile: "n.1.%r.err", Redirect: both,
		},
		"prterun --output dir=d x": {
			StdoutFile: "d/1/rank.%R/stdout", StderrFile: "d/1/rank.%R/stderr", Redirect: both,
		},
		"mpirun --output file=n:copy x": {StdoutFile: "n.1.%r.out", StderrFile: "n.1.%r.err", Tee: both},
		"mpirun --output-directory n:tee x": {
			StdoutFile: "n/1/rank.%R/stdout", StderrFile: "n/1/rank.%R/stderr", Tee: both,
		},
		"gorun --output file=n x":                            {StdoutFile: "n.1.%r.out", StderrFile: "n.1.%r.err", Tee: both},
		"mpiexec -outfile-pattern o.%r x":                    {StdoutFile: "o.%r", Redirect: one(job.Stdout)},
		"mpiexec -errfile-pattern e.%r.%h x":                 {StderrFile: "e.%r.%h", Redirect: one(job.Stderr)},
		"mpiexec -outfile-pattern o -errfile-pattern e.%r x": {StdoutFile: "o", StderrFile: "e.%r", Redirect: both},
	} {
		require.Equal(t, want, mustParse(t, line).Spec.Output, line)
	}
	inv := mustParse(t, "mpirun -v -output-filename d:nocopy x", "PET_TEE=3")
	require.Equal(t, both, inv.Spec.Output.Redirect)
	require.Zero(t, inv.Spec.Output.Tee)
	require.Contains(t, inv.Notes, "PET_TEE=3 is ignored beside -output-filename d:nocopy")
}

// TestDisplays: the displayed parts of the plan. Scripts parse the bindings that mpirun prints.
func TestDisplays(t *testing.T) {
	inv := mustParse(t, "gorun --display map,allocation,bindings,topo -print-rank-map x")
	require.Equal(t, Display{Map: true, RankMap: true, Hosts: true}, inv.Display)
	require.True(t, inv.Spec.Place.Report)
	require.True(t, inv.Spec.Place.Machine)
	for _, line := range []string{
		"mpirun --report-bindings x", "orterun --mca hwloc_base_report_bindings 1 x",
		"mpirun --display bindings x",
	} {
		place := mustParse(t, line).Spec.Place
		require.True(t, place.ReportOpenMPI, line)
		require.False(t, place.Report, line)
	}
	require.True(t, mustParse(t, "mpiexec --report-bindings x").Spec.Place.Report)
}
