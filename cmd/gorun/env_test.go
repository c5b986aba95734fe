package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/env/nccl"
	"gorun/env/plan"
	"gorun/launcher/job"
)

func TestEnv(t *testing.T) {
	inv := mustBe[*envOptions](t, "gorun env")
	require.Equal(t, anyProgram, inv.Spec.Apps[0].Program)
	require.Equal(t, job.StartExec, inv.Spec.Apps[0].Start)

	// The job is the same as for gorun without env.
	for _, line := range []string{
		"-np 4 -H a:2,b:2 --map-by numa -x A=1 prog -x", "--nproc-per-node 2 -m pkg.train",
		"-n 1 a : -n 2 b",
	} {
		job, err := dialect.Parse("gorun", strings.Fields(line), aroundOf())
		require.NoError(t, err)
		env := mustBe[*envOptions](t, "gorun env "+line)
		require.Equal(t, job.Spec, env.Spec, line)
		require.Equal(t, job.Notes, env.Notes, line)
	}

	inv = mustBe[*envOptions](t, "gorun env --explain NCCL_DEBUG NCCL_IB_*")
	require.Equal(t, []string{"NCCL_DEBUG", "NCCL_IB_*"}, inv.explain)
	inv = mustBe[*envOptions](t, "gorun env --lint --library none a.sh - b.py --json")
	require.True(t, inv.lint && inv.JSON)
	require.Equal(t, "none", inv.settings.library)
	require.Equal(t, []string{"a.sh", "-", "b.py"}, inv.settings.files)
	inv = mustBe[*envOptions](t, "gorun env --explain NCCL_DEBUG --json NCCL_ALGO -- --odd")
	require.Equal(t, []string{"NCCL_DEBUG", "NCCL_ALGO", "--odd"}, inv.explain)
	require.True(t, inv.JSON)
	inv = mustBe[*envOptions](t, "gorun env --lint -- a.sh --json")
	require.Equal(t, []string{"a.sh", "--json"}, inv.settings.files)
	require.Equal(t, []string{"prog gets --json; for gorun write options before the program"},
		mustBe[*envOptions](t, "gorun env prog --json").Notes)
	inv = mustBe[*envOptions](t, "gorun env --json --lint")
	require.True(t, inv.JSON && inv.lint && inv.settings.files == nil)
	require.True(t, mustBe[*envOptions](t, "gorun env --shell -n 2").shell)
}

func TestEnvRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"--lint --shell":          "--lint and --shell contradict each other: ask for one at a time",
		"--explain A --lint":      "--explain and --lint contradict each other: ask for one at a time",
		"--shell --json":          "--shell and --json contradict each other: ask for one at a time",
		"--lint a.sh --shell":     "--lint and --shell contradict each other: ask for one at a time",
		"--library x":             "--library is an option of gorun lint",
		"-n 2 --nproc-per-node 3": "-n 2 contradicts --nproc-per-node 3, which makes 3 on one host",
	} {
		require.Equal(t, []string{want}, problems(t, "gorun env "+line), line)
	}
	require.Contains(t, strings.Join(problems(t, "gorun env --repot x"), ""), "unknown option --repot")
	require.Contains(t, strings.Join(problems(t, "gorun env --lint a.sh --jsno"), ""), "unknown option --jsno")
}

// gorun env --tune textbook does not point to itself.
func TestTextbookNote(t *testing.T) {
	const note = "gorun env --tune textbook says of each setting what is wrong with it"
	for line, noted := range map[string]bool{"--tune textbook -n 1 prog": true, "-n 1 prog": false} {
		inv, err := dialect.Parse("gorun", strings.Fields(line), aroundOf())
		require.NoError(t, err)
		require.Equal(t, noted, slices.Contains(inv.Notes, note), line)
	}
	require.NotContains(t, mustBe[*envOptions](t, "gorun env --tune textbook").Notes, note)
}

// With --list and --explain, options may follow arguments. Otherwise those options belong to a program.
func TestDoctorAsked(t *testing.T) {
	inv := mustBe[*doctorOptions](t, "gorun doctor --explain shm nofile --json")
	require.Equal(t, []string{"shm", "nofile"}, inv.explain)
	require.True(t, inv.JSON)
	inv = mustBe[*doctorOptions](t, "gorun doctor --json --list")
	require.True(t, inv.list)
	require.True(t, inv.JSON)
	inv = mustBe[*doctorOptions](t, "gorun doctor ./trainer --json")
	require.False(t, inv.JSON)
	require.Equal(t,
		[]string{"./trainer gets --json; for gorun write options before the program"}, inv.Notes)
	require.Equal(t, []string{"--list takes no check: gorun explain shm explains single ones"},
		problems(t, "gorun doctor --list shm"))
	require.Contains(t, strings.Join(problems(t, "gorun doctor --explain shm --jsno"), ""), "unknown option --jsno")
}

// The database and the plan agree on the variables that gorun sets.
func TestDatabaseKnowsWhatGorunSets(t *testing.T) {
	known := 0
	for _, row := range plan.Table() {
		v, found := nccl.Lookup(row.Name)
		if row.Class != plan.ClassSetting || row.Value == "" || row.Source == plan.TeachingTexts || !found || v.IsPattern() {
			continue
		}
		known++
		require.NotEqual(t, nccl.Leaves, v.Gorun, "%s is set to %s, and env/nccl says that gorun never sets it", row.Name,
			row.Value)
	}
	require.Greater(t, known, 1)
}

func TestMergeValues(t *testing.T) {
	for values, want := range map[string]string{
		"0 1 2 3": "0..3", "5": "5", "a a": "a", "4 5": "4..5", "0 2": "", "a b": "", "1 0": "", "- 1": "", "01 02": "",
	} {
		require.Equal(t, want, mergeValues(strings.Fields(values)), values)
	}
}

// A shell never executes a name or a value.
func TestShellOfOddNames(t *testing.T) {
	value := "$(x)\n`y`"
	e := environment{}
	for _, name := range []string{"A;touch x\nrm y", "BASH_FUNC_f%%", "1A", "É", "GOOD_1"} {
		e.Variables = append(e.Variables, envVariable{Name: name, Value: &value, Origin: plan.Exported, setting: true})
	}
	require.Equal(t, "# A;touch x^Jrm y is no name for a shell\n# BASH_FUNC_f%% is no name for a shell\n"+
		"# 1A is no name for a shell\n# É is no name for a shell\n"+
		"export GOOD_1='$(x)\n`y`'\n", e.shell())
}

// Values of hosts and ranks are merged, and missing values are dashes.
func TestValuesOfSome(t *testing.T) {
	one, two := "eth0", "eno1"
	e := environment{hosts: []string{"a", "b"}}
	require.Equal(t, "a:eth0 b:eno1", e.value(&envVariable{By: "host", Values: []*string{&one, &two}}))
	require.Equal(t, "eth0", e.value(&envVariable{By: "host", Values: []*string{&one, &one}}))
	require.Equal(t, "eth0 -", e.value(&envVariable{By: "rank", Values: []*string{&one, nil}}))
	long := strings.Repeat("x", 40)
	require.Equal(t, "eth0 …", e.value(&envVariable{By: "rank", Values: []*string{&one, &long, &long}}))
	require.Equal(t, "eth0 eno1 eth0 eno1 …",
		e.value(&envVariable{By: "rank", Values: []*string{&one, &two, &one, &two, &one}}))
}

func TestLintOfNothing(t *testing.T) {
	text, err := json.Marshal((&lintReport{}).json())
	require.NoError(t, err)
	require.JSONEq(t, `{"setting_count": 0, "findings": []}`, string(text))
}

func TestExplanationsFitATerminal(t *testing.T) {
	for _, v := range nccl.Variables() {
		for line := range strings.Lines(explainVariable(v.Name, v, envWidth)) {
			require.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), envWidth, line)
		}
	}
}
