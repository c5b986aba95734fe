package placement

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// Open MPI's mpirun places ranks on hwloc's synthetic machines and reports the bindings. answersFile
// has its answers to a fixed set of questions. If mpirun is installed, the test also runs it for some
// of these and for new questions.
const answersFile = "testdata/mpirun-4.1.txt"

var askAll = flag.Bool("ask-mpirun", false, "ask mpirun for all of "+answersFile+" and write it again")

// question is the input of mpirun and of Map.
type question struct {
	machine string // hwloc's synthetic description
	ranks   int
	mapBy   string
	bindTo  string // "": not given
	rankBy  string // "": not given
}

func (q question) options() []string {
	options := []string{"-np", strconv.Itoa(q.ranks), "--map-by", q.mapBy}
	if q.bindTo != "" {
		options = append(options, "--bind-to", q.bindTo)
	}
	if q.rankBy != "" {
		options = append(options, "--rank-by", q.rankBy)
	}
	return options
}

func (q question) String() string { return q.machine + " | " + strings.Join(q.options(), " ") }

var oracleMachines = []string{
	"pack:1 numa:1 core:4 pu:1",
	"pack:1 numa:1 l3:1 l2:4 core:1 pu:2",
	"pack:2 numa:1 l3:1 core:4 pu:2",
	"pack:2 numa:2 l3:2 core:3 pu:1",
	"pack:2 numa:1 l3:2 l2:2 core:2 pu:2",
	"pack:4 numa:1 l3:1 core:2 pu:2",
	"pack:1 numa:4 l3:1 core:3 pu:2",
}

// These tests cover the common behavior. docs/internals/placement.md explains the differences.
var (
	oracleMaps = []string{
		"slot", "node", "socket", "numa", "l3cache", "l2cache", "core", "hwthread",
		"slot:pe=2", "slot:pe=3", "socket:pe=2", "numa:pe=3", "l3cache:pe=2",
		"ppr:1:socket", "ppr:2:socket", "ppr:2:numa", "ppr:1:core", "ppr:2:core", "ppr:3:l3cache", "ppr:1:hwthread",
		"ppr:2:socket:pe=2", "ppr:4:node",
	}
	oracleBinds = []string{
		"", "none", "hwthread", "core", "l2cache", "l3cache", "numa", "socket",
		"core:overload-allowed", "socket:overload-allowed",
	}
	oracleRanks = []string{
		"", "slot", "node", "socket", "numa", "core", "hwthread", "socket:span", "socket:fill",
		"numa:fill", "core:fill", "l3cache",
	}
	oracleSizes = []int{1, 2, 3, 4, 5, 6, 8, 12, 16}
)

// comparable reports whether the question has the same meaning for both.
func (q question) comparable() bool {
	coarse := strings.HasPrefix(q.mapBy, "slot") || strings.HasPrefix(q.mapBy, "node") || strings.HasPrefix(q.mapBy, "ppr")
	pe := strings.Contains(q.mapBy, "pe=")
	cache, _, _ := strings.Cut(strings.TrimPrefix(q.mapBy, "l"), "cache")
	switch {
	case len(cache) == 1 && !strings.Contains(q.machine, "l"+cache+":"):
		return false // without the object, mpirun maps by slot and gorun fails
	case coarse && !pe && q.bindTo == "":
		return false // gorun's default there is a share
	case pe && q.bindTo != "" && q.bindTo != "core":
		return false // both fail, or it is contradictory
	}
	return true
}

func randomQuestion(pick func(n int) int) question {
	for {
		q := question{
			machine: oracleMachines[pick(len(oracleMachines))],
			ranks:   oracleSizes[pick(len(oracleSizes))],
			mapBy:   oracleMaps[pick(len(oracleMaps))],
		}
		if pick(3) > 0 {
			q.bindTo = oracleBinds[pick(len(oracleBinds))]
		}
		if pick(3) == 0 {
			q.rankBy = oracleRanks[pick(len(oracleRanks))]
		}
		if q.comparable() {
			return q
		}
	}
}

// fixedQuestions returns the questions of the golden file, which are always the same.
func fixedQuestions() []question {
	state := uint32(1)
	pick := func(n int) int { // a small generator, independent of the Go release
		state = state*1664525 + 1013904223
		return int(state>>8) % n
	}
	var questions []question
	for len(questions) < 500 {
		if q := randomQuestion(pick); !slices.Contains(questions, q) {
			questions = append(questions, q)
		}
	}
	return questions
}

// ask returns gorun's answer: "0:0-1 1:2-3" (rank: CPUs), "not bound" or "error: …".
func (q question) ask(t testing.TB) string {
	t.Helper()
	machine := synthetic(t, q.machine)
	req := Request{Ranks: q.ranks}
	var err error
	req.MapBy, err = ParseMapBy(q.mapBy)
	if err == nil && q.bindTo != "" {
		req.BindTo, err = ParseBindTo(q.bindTo)
	}
	if err == nil && q.rankBy != "" {
		req.RankBy, err = ParseRankBy(q.rankBy)
	}
	var layout Layout
	if err == nil {
		layout, err = Map(req, []Machine{machine})
	}
	if err != nil {
		return "error: " + err.Error()
	}
	sets := make(map[int]CPUSet)
	for rank, r := range layout.Ranks {
		sets[rank] = r.CPUs
	}
	return answer(machine, sets)
}

// answer formats the CPUs of ranks. A rank on all CPUs is not bound.
func answer(m Machine, sets map[int]CPUSet) string {
	bound := false
	var parts []string
	for rank := range len(sets) {
		set := sets[rank]
		if set.Equal(m.CPUs) {
			set = CPUSet{}
		}
		bound = bound || set.Len() > 0
		parts = append(parts, fmt.Sprintf("%d:%s", rank, set))
	}
	if !bound {
		return "not bound"
	}
	return strings.Join(parts, " ")
}

var mapLine = regexp.MustCompile(`Process rank: (\d+) Bound: .*?((?:\[[B./]+\])+|N/A|UNBOUND)\s*$`)

// askMpirun returns Open MPI's answer in the same format.
func (q question) askMpirun(t testing.TB, mpirun, temporary string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	argv := append([]string{"--allow-run-as-root", "--do-not-launch", "--display-map", "--host", "localhost:64"},
		q.options()...)
	cmd := exec.CommandContext(ctx, mpirun, append(argv, "true")...)
	cmd.Env = append(os.Environ(), "HWLOC_SYNTHETIC="+q.machine, "HWLOC_THISSYSTEM=1", "TMPDIR="+temporary)
	output, _ := cmd.CombinedOutput() // the exit status is always 1 because mpirun launches nothing
	sets := make(map[int]CPUSet)
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		if found := mapLine.FindStringSubmatch(lines.Text()); found != nil {
			rank, err := strconv.Atoi(found[1])
			require.NoError(t, err)
			sets[rank] = cpusOfMap(found[2])
		}
	}
	if len(sets) == 0 {
		return "error"
	}
	return answer(synthetic(t, q.machine), sets)
}

// cpusOfMap parses a core map "[BB/..][../B.]".
func cpusOfMap(cores string) CPUSet {
	var set CPUSet
	if !strings.HasPrefix(cores, "[") {
		return set // N/A, UNBOUND
	}
	cpu := 0
	for _, letter := range cores {
		if letter == 'B' {
			set = set.With(cpu)
		}
		if letter == 'B' || letter == '.' {
			cpu++
		}
	}
	return set
}

// mpirun4 skips the test unless mpirun is Open MPI 4.
func mpirun4(t testing.TB) string {
	t.Helper()
	path := testneeds.Program(t, "openmpi", "mpirun.openmpi")
	version, err := exec.Command(path, "--version").Output()
	require.NoError(t, err)
	if !regexp.MustCompile(`\(Open(RTE| MPI)\) 4\.`).Match(version) {
		first, _, _ := strings.Cut(string(version), "\n")
		testneeds.Skip(t, "openmpi", "its answers are Open MPI 4's, this is "+first)
	}
	return path
}

func readAnswers(t testing.TB) map[string]string {
	t.Helper()
	data, err := os.ReadFile(answersFile)
	require.NoError(t, err)
	answers := make(map[string]string)
	for _, line := range strings.Split(string(data), "\n") {
		if question, answer, ok := strings.Cut(line, " => "); ok {
			answers[question] = answer
		}
	}
	return answers
}

// agree compares two answers. All errors are equal.
func agree(ours, theirs string) bool {
	return ours == theirs || strings.HasPrefix(ours, "error: ") && strings.HasPrefix(theirs, "error")
}

// Map agrees with the recorded answers of Open MPI 4.
func TestMapAsMpirun(t *testing.T) {
	answers := readAnswers(t)
	for _, q := range fixedQuestions() {
		theirs, known := answers[q.String()]
		require.True(t, known, "%s has no answer to %s: go test ./placement -run MpirunLive -ask-mpirun", answersFile, q)
		if ours := q.ask(t); !agree(ours, theirs) {
			t.Errorf("%s\n  gorun:  %s\n  mpirun: %s", q, ours, theirs)
		}
	}
}

// mpirun agrees with the file, and with Map on new questions.
func TestMapAsMpirunLive(t *testing.T) {
	mpirun, temporary := mpirun4(t), t.TempDir()
	if *askAll {
		writeAnswers(t, mpirun, temporary)
	}
	random := testneeds.Rand(t)
	answers := readAnswers(t)
	fixed := fixedQuestions()
	for range testneeds.Count(10, len(fixed)) {
		q := fixed[random.IntN(len(fixed))]
		assert.Equal(t, answers[q.String()], q.askMpirun(t, mpirun, temporary), "%s", q)
	}
	for range testneeds.Count(20, 1000) {
		q := randomQuestion(random.IntN)
		if ours, theirs := q.ask(t), q.askMpirun(t, mpirun, temporary); !agree(ours, theirs) {
			t.Errorf("%s\n  gorun:  %s\n  mpirun: %s", q, ours, theirs)
		}
	}
}

func writeAnswers(t testing.TB, mpirun, temporary string) {
	t.Helper()
	var lines []string
	for _, q := range fixedQuestions() {
		lines = append(lines, q.String()+" => "+q.askMpirun(t, mpirun, temporary))
	}
	slices.SortStableFunc(lines, func(a, b string) int { return cmp.Compare(a, b) })
	text := "# Where Open MPI 4.1 places ranks on made-up machines (rank:CPUs); TestMapAsMpirunLive -ask-mpirun writes " +
		"it.\n" + strings.Join(lines, "\n") + "\n"
	require.NoError(t, os.MkdirAll(filepath.Dir(answersFile), 0o755))
	require.NoError(t, os.WriteFile(answersFile, []byte(text), 0o644))
}
