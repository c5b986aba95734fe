package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/placement"
)

//go:generate go test -run ^TestTopoDocs$ -count=1 . -update

var update = flag.Bool("update", false, "write the pictures of docs/topo.md again")

// ran is what a command line prints, which must be fine.
func ran(t *testing.T, words ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	require.Zero(t, gorun(words[0], words[1:], &stdout, &stderr), "%q: %s", words, stderr.String())
	require.Empty(t, stderr.String())
	return stdout.String()
}

// TestTopoDocs keeps the pictures of docs/topo.md equal to what their commands
// print. A picture that begins with "..." has only what begins like the line below
// it, and all that follows.
func TestTopoDocs(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("COLUMNS", "100")
	page := filepath.Join(testneeds.Repository(t), "docs", "topo.md")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	blocks := 0
	fresh := regexp.MustCompile("(?s)```console\n.*?```").ReplaceAllStringFunc(string(text), func(block string) string {
		blocks++
		command, shown, _ := strings.Cut(strings.TrimPrefix(block, "```console\n$ "), "\n")
		output := ran(t, strings.Fields(command)...)
		if rest, ok := strings.CutPrefix(shown, "...\n"); ok {
			begin := strings.Fields(rest)[0]
			at := strings.Index(output, "\n"+begin)
			require.Positive(t, at, "%s prints no line that begins with %s", command, begin)
			output = "...\n" + output[at+1:]
		}
		return "```console\n$ " + command + "\n" + output + "```"
	})
	require.Equal(t, 3, blocks)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(fresh), 0o644))
		return
	}
	require.Equal(t, string(text), fresh, "docs/topo.md is stale: make docs")
}

// Every example is drawn, in the width and the characters that there are.
func TestTopoShowsEveryExample(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	t.Setenv("COLUMNS", "80")
	for _, name := range placement.Examples() {
		for line := range strings.Lines(ran(t, "gorun", "topo", "--example", name, "-n", "4")) {
			require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 80, "%s: %s", name, line)
		}
		require.Contains(t, ran(t, "gorun", "topo", "--example", name, "--svg", "-"), "</svg>\n")
		require.Contains(t, ran(t, "gorun", "topo", "--example", name, "--json"), `"format": 1`)
	}
}

func TestNVLinkNote(t *testing.T) {
	m, err := placement.Example("pcie-8gpu")
	require.NoError(t, err)
	require.Len(t, withNVLinkNote(m).Notes, 1)
	m.GPUs = m.GPUs[:1]
	require.Empty(t, withNVLinkNote(m).Notes)
	m, err = placement.Example("mi300x")
	require.NoError(t, err)
	require.Empty(t, withNVLinkNote(m).Notes)
}

func TestHasUTF8(t *testing.T) {
	for _, row := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "", false},
		{"", "", "C.UTF-8", true},
		{"", "", "de_DE.utf8", true},
		{"", "C", "C.UTF-8", false},
		{"C.UTF-8", "C", "C", true},
		{"POSIX", "C.UTF-8", "C.UTF-8", false},
	} {
		getenv := func(name string) string {
			return map[string]string{"LC_ALL": row.all, "LC_CTYPE": row.ctype, "LANG": row.lang}[name]
		}
		require.Equal(t, row.want, hasUTF8(getenv), "%+v", row)
	}
}

// A rank file that was written and is read back gives every rank the same CPUs.
func TestWrittenRankFileIsReadBack(t *testing.T) {
	dir := t.TempDir()
	type places struct {
		Ranks []struct{ CPUs, Memories string }
	}
	read := func(words ...string) (p places) {
		require.NoError(t, json.Unmarshal([]byte(ran(t, append(words, "--json")...)), &p))
		return p
	}
	for _, name := range placement.Examples() {
		if name == "one" { // whose ranks are not bound
			continue
		}
		for i, wish := range [][]string{
			{"-n", "2"},
			{"-n", "4", "--map-by", "core"},
			{"--map-by", "ppr:2:package"},
			{"-n", "4", "--cpus-per-rank", "2"},
		} {
			file := filepath.Join(dir, fmt.Sprint(name, i))
			words := append([]string{"gorun", "topo", "--example", name}, wish...)
			require.Empty(t, ran(t, append(words, "--write-rankfile", file)...))
			require.Equal(t, read(words...), read("gorun", "topo", "--example", name, "--rankfile", file), "%q", words)
		}
	}
}
