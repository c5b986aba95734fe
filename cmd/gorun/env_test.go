package main

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/env/nccl"
	"gorun/env/plan"
)

// What the database says that gorun does is what it does: a setting that ranks are given is not one that gorun never
// sets.
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

func TestFoldValues(t *testing.T) {
	for values, want := range map[string]string{
		"0 1 2 3": "0..3", "5": "5", "a a": "a", "4 5": "4..5", "0 2": "", "a b": "", "1 0": "", "- 1": "", "01 02": "",
	} {
		require.Equal(t, want, foldValues(strings.Fields(values)), values)
	}
}

// No name and no value becomes a command of the shell that reads it.
func TestShellOfOddNames(t *testing.T) {
	value := "$(x)\n`y`"
	e := jobEnvironment{}
	for _, name := range []string{"A;touch x\nrm y", "BASH_FUNC_f%%", "1A", "É", "GOOD_1"} {
		e.Variables = append(e.Variables, jobVariable{Name: name, Value: &value, Origin: plan.Exported, setting: true})
	}
	require.Equal(t, "# A;touch x^Jrm y is no name for a shell\n# BASH_FUNC_f%% is no name for a shell\n"+
		"# 1A is no name for a shell\n# É is no name for a shell\n"+
		"export GOOD_1='$(x)\n`y`'\n", e.shell())
}

// A pipe in place of a file of settings would have us wait for ever.
func TestReadConfOfAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "nccl.conf")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err := readConf(pipe)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Hosts' and ranks' values are folded, and what some have not is a dash.
func TestValuesOfSome(t *testing.T) {
	one, two := "eth0", "eno1"
	e := jobEnvironment{hosts: []string{"a", "b"}}
	require.Equal(t, "a:eth0 b:eno1", e.values(jobVariable{By: "host", Values: []*string{&one, &two}}))
	require.Equal(t, "eth0", e.values(jobVariable{By: "host", Values: []*string{&one, &one}}))
	require.Equal(t, "eth0 -", e.values(jobVariable{By: "rank", Values: []*string{&one, nil}}))
	long := strings.Repeat("x", 40)
	require.Equal(t, "eth0 …", e.values(jobVariable{By: "rank", Values: []*string{&one, &long, &long}}))
	require.Equal(t, "eth0 eno1 eth0 eno1 …",
		e.values(jobVariable{By: "rank", Values: []*string{&one, &two, &one, &two, &one}}))
}

func TestLintOfNothing(t *testing.T) {
	text, err := json.Marshal((&lintReport{}).json())
	require.NoError(t, err)
	require.JSONEq(t, `{"settings": 0, "findings": []}`, string(text))
}

func TestWrapText(t *testing.T) {
	require.Equal(t, []string{"a b", "ccccc", "d"}, wrapped("a b ccccc d", 4))
	require.Equal(t, []string{""}, wrapped("", 4))
	require.NotContains(t, columns("a", "a\x1b[31m b", 40), "\x1b")
	for _, v := range nccl.Variables() { // an explanation fits a terminal
		for line := range strings.Lines(explained(v.Name, v)) {
			require.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), envWidth, line)
		}
	}
}
