package interop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testhosts"
)

// TestEngines runs jobs in allocations of resource managers that cannot be installed here. Stubs follow the
// documentation of their commands. Ranks run on the hosts of the allocation, and only the engine's command starts
// agents. The secret appears on no command line and in no environment.
func TestEngines(t *testing.T) {
	f := raise(t, testhosts.Config{Hosts: 3, Keep: []string{filepath.Dir(self(t))}})
	for name, test := range map[string]func(*testing.T, fleet){
		"LSF": lsfJob, "Grid Engine": sgeJob, "Flux": fluxJob, "OpenPBS": pbsJob, "Torque": torqueJob, "none": noEngine,
		"no gorun there":  noProgram,
		"nodes of a step": nodeSteps, "ranks of a step": rankSteps,
	} {
		t.Run(name, func(t *testing.T) { test(t, f) })
	}
}

// ran runs a job whose ranks print their hosts, and checks the calls of the engine's commands. It compares each
// call up to gorun's own program, or up to the part that a shell reads.
func (s site) ran(t *testing.T, environ []string, want string, args []string, calls ...string) []call {
	t.Helper()
	got := s.gorun(environ, append(args, where...)...).run(t)
	require.Zero(t, got.code, "%s\n%s", got.stdout, got.stderr)
	require.Equal(t, want, whereabouts(t, got), got.stderr)
	made := s.made(t)
	var lines []string
	for _, c := range made {
		at := slices.IndexFunc(c.Argv, func(word string) bool {
			return strings.HasPrefix(word, "exec ") || word == built("gorun")
		})
		require.Positive(t, at, c.Argv)
		lines = append(lines, strings.Join(c.Argv[:at], " "))
	}
	require.ElementsMatch(t, calls, slices.Compact(slices.Sorted(slices.Values(lines))), "one host may be asked twice")
	for _, c := range made {
		token := tokenIn(c.Line)
		for _, place := range slices.Concat(c.Argv, c.Environ) {
			require.False(t, token != "" && strings.Contains(place, token), "the secret is in %s", place)
		}
	}
	return made
}

// tokenIn is the secret in an invitation, or "" if it contains no secret.
func tokenIn(line string) string {
	_, rest, _ := strings.Cut(line, `"token":"`)
	token, _, _ := strings.Cut(rest, `"`)
	return token
}

func lsfJob(t *testing.T, f fleet) {
	environ := []string{"LSB_JOBID=4711", "LSB_MCPU_HOSTS=h1 2 h2 1", "LSB_DJOB_NUMPROC=3"}
	newSite(t, f, "blaunch").ran(t, environ, "h1 h1 h2", nil, "blaunch h1", "blaunch h2")
	newSite(t, f, "blaunch").ran(t, environ, "h2", []string{"-H", "h2"}, "blaunch h2")
	// Usually the script runs on the first host of the job, so no command is needed to reach it.
	newSite(t, f, "blaunch").ran(t, []string{"LSB_JOBID=4712", "LSB_MCPU_HOSTS=head 1 h1 2"}, "head h1 h1", nil,
		"blaunch h1")
}

func sgeJob(t *testing.T, f fleet) {
	s := newSite(t, f, "qrsh")
	file := f.write(t, "pe_hostfile", "h1 1 all.q@h1 UNDEFINED\nh2 1 all.q@h2 UNDEFINED\nh1 1 gpu.q@h1 UNDEFINED\n")
	environ := []string{"SGE_ROOT=/opt/sge", "ARC=lx-amd64", "JOB_ID=900", "NSLOTS=3", "PE_HOSTFILE=" + file}
	s.ran(t, environ, "h1 h1 h2", nil, "qrsh -inherit h1", "qrsh -inherit h2")
}

func fluxJob(t *testing.T, f fleet) {
	environ := []string{"FLUX_URI=local:///run/flux/local", siteHosts + "=h1 h2 h3"}
	made := newSite(t, f, "flux").ran(t, environ, "h1 h2 h3", nil, "flux exec")
	require.NotEmpty(t, tokenIn(made[0].Line), "agents learn by standard input where the head is")
	newSite(t, f, "flux").ran(t, environ, "h1 h1 h3 h3", []string{"-H", "h1,h3", "--nproc-per-node", "2"},
		"flux exec --rank=0,2")
}

// pbsFile is a node file with h1 twice and h2 once. OpenPBS gives h1 two chunks.
func pbsFile(t *testing.T, f fleet, name, lines string) []string {
	return []string{"PBS_ENVIRONMENT=PBS_BATCH", "PBS_JOBID=17.pbs1", "PBS_TASKNUM=1", "PBS_NODEFILE=" +
		f.write(t, name, lines)}
}

func pbsJob(t *testing.T, f fleet) {
	environ := append(pbsFile(t, f, "17.pbs1", "h1\nh2\nh1\n"), "NCPUS=1")
	s := newSite(t, f, "pbsdsh")
	path := filepath.Join(s.bin, "pbsdsh")
	require.FileExists(t, path)
	made := s.ran(t, environ, "h1 h1 h2", nil, "pbsdsh -n 0 --", "pbsdsh -n 1 --")
	for _, c := range made { // the last argument names a file, which no longer exists
		_, file, found := strings.Cut(c.Argv[len(c.Argv)-1], ":")
		require.True(t, found, c.Argv)
		_, err := os.Stat(file)
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	environ = append(pbsFile(t, f, "18.pbs1", "h1\nh2\n"), "NCPUS=8")
	newSite(t, f, "pbsdsh").ran(t, environ, "h1 h1 h2 h2", []string{"-n", "4"}, "pbsdsh --")
}

func torqueJob(t *testing.T, f fleet) {
	environ := append(pbsFile(t, f, "120.head", "h1\nh1\nh3\n"), "PBS_VERSION=TORQUE-6.1.1", "PBS_NP=3", "PBS_NUM_PPN=2")
	newSite(t, f, "pbsdsh").ran(t, environ, "h1 h1 h3", nil, "pbsdsh -u --")
	newSite(t, f, "pbsdsh").ran(t, environ, "h3", []string{"-H", "h3"}, "pbsdsh -n 2 --")
}

// noEngine: gorun uses no engine with --engine none, or with hosts outside the allocation. A broken allocation
// suggests how to run without it.
func noEngine(t *testing.T, f fleet) {
	s := newSite(t, f, "blaunch")
	environ := []string{"LSB_JOBID=4711", "LSB_MCPU_HOSTS=h1 2 h2"}
	got := s.gorun(environ, where...).run(t)
	require.Equal(t, 2, got.code, got.stderr)
	require.Contains(t, got.stderr, "LSB_MCPU_HOSTS=h1 2 h2: ")
	require.Contains(t, got.stderr, "--engine none")
	got = s.gorun(environ, append([]string{"--engine", "none", "-n", "2"}, where...)...).run(t)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, "head head", whereabouts(t, got))
	require.NoFileExists(t, s.calls)
}

// noProgram: if gorun is not installed on a host, the engine's command fails. gorun reports the fix at once, long
// before a timeout.
func noProgram(t *testing.T, f fleet) {
	flux := []string{"FLUX_URI=local:///run/flux/local", siteHosts + "=h1 h2 h3", siteWithout + "=h2"}
	got := newSite(t, f, "flux").gorun(flux, where...).run(t)
	require.Equal(t, 125, got.code, got.stderr)
	require.Contains(t, got.stderr, "flux-exec: Error: rank 1: "+built("gorun")+": No such file or directory")
	require.Contains(t, got.stderr,
		"gorun: hint: install "+built("gorun")+" where all nodes see it: it is missing on a node, or differs there")
	pbs := append(pbsFile(t, f, "19.pbs1", "h1\nh2\n"), siteWithout+"=h2")
	got = newSite(t, f, "pbsdsh").gorun(pbs, where...).run(t)
	require.Equal(t, 125, got.code, got.stderr)
	require.Contains(t, got.stderr, "pbsdsh: task 0x00000000 exit status 127")
}
