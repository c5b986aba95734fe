package faults

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gorun/internal/testneeds"
)

// launcher describes a command that starts ranks.
type launcher struct {
	name string
	// argv precedes the program; {n} is replaced by the number of ranks.
	argv []string
	// label are the options that label lines, and tag finds the rank in a label.
	label []string
	tag   *regexp.Regexp
	// ours reports that the launcher is gorun. Some cases need its options and processes.
	ours bool
	// limit is how long it may take to end. It may take twice that to start its ranks.
	limit time.Duration
	// leaving is how long processes may remain after the launcher ends.
	leaving time.Duration
}

const (
	// patience is how long any step of gorun may take on a busy machine. These tests do not check the real
	// deadlines.
	patience = 60 * time.Second
	// peerPatience and peerLeaving are the same for other launchers, which often hang and leave orphans.
	peerPatience = 20 * time.Second
	peerLeaving  = 10 * time.Second
)

// peerNames are the launchers in the table, in its order.
var peerNames = []string{"gorun", "torchrun", "mpirun.openmpi", "mpiexec.hydra"}

// known returns a launcher by name, with a grace period of 2 s if it has one, or makes one from a template.
func known(t testing.TB, name string) launcher {
	t.Helper()
	bracket := regexp.MustCompile(`^\[ *(\d+)\] `)
	l := launcher{name: name, limit: peerPatience, leaving: peerLeaving, tag: bracket}
	switch name {
	case "gorun":
		l.argv, l.ours = []string{built("gorun"), "-n", "{n}", "--grace", "2"}, true
		l.limit, l.leaving = patience, patience
		l.label = []string{"--label=always"}
	case "torchrun":
		torchrun := filepath.Join(filepath.Dir(testneeds.Torch(t)), "torchrun")
		l.argv = []string{torchrun, "--standalone", "--no-python", "--nproc-per-node", "{n}", "--shutdown-timeout", "2"}
		l.label, l.tag = []string{"--tee", "3"}, regexp.MustCompile(`^\[default(\d+)\]:`)
	case "mpirun.openmpi":
		l.argv = []string{testneeds.Program(t, "openmpi", name), "--allow-run-as-root", "--oversubscribe", "-n", "{n}"}
		l.label, l.tag = []string{"--tag-output"}, regexp.MustCompile(`^\[1,(\d+)\]<stdout>:`)
	case "mpiexec.hydra":
		l.argv = []string{testneeds.Program(t, "hydra", name), "-n", "{n}"}
		l.label = []string{"-l"}
	default:
		l.argv = strings.Fields(name)
	}
	return l
}

// command is the argv of a job.
func (l launcher) command(ranks int, options, program []string) []string {
	var argv []string
	for _, word := range l.argv {
		argv = append(argv, strings.ReplaceAll(word, "{n}", strconv.Itoa(ranks)))
	}
	if path, err := exec.LookPath(argv[0]); err == nil {
		argv[0] = path
	}
	return append(append(argv, options...), program...)
}

// names reports whether a launcher's messages name a rank as the one that failed.
func (l launcher) names(rank int, text string) bool {
	if l.ours {
		return strings.Contains(text, "gorun: rank "+strconv.Itoa(rank)+" failed first")
	}
	return regexp.MustCompile(`(?i)rank\s*:?\s*` + strconv.Itoa(rank) + `\b|,` + strconv.Itoa(rank) +
		`\]`).MatchString(text)
}
