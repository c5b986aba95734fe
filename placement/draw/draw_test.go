package draw_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/placement"
	"gorun/placement/draw"
)

//go:generate go test -run ^Test -count=1 . -update

var update = flag.Bool("update", false, "rewrite the pictures in testdata")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), text, "%s: go generate ./placement/draw", file)
}

func TestPictures(t *testing.T) {
	for name, machine := range machines {
		t.Run(name, func(t *testing.T) {
			m := machine()
			text := draw.Picture(m, nil, draw.Style{})
			if matrix := draw.Matrix(m, draw.Style{}); matrix != "" {
				text += "\n" + matrix
			}
			golden(t, name+".txt", text)
		})
	}
}

// fits checks what holds for every text for a terminal.
func fits(t *testing.T, text string, style draw.Style) {
	t.Helper()
	width := style.Width
	if width == 0 {
		width = draw.DefaultWidth
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		require.LessOrEqual(t, utf8.RuneCountInString(line), width, "%q", line)
		require.Equal(t, strings.TrimRight(line, " "), line)
		for _, r := range line {
			require.False(t, r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e', "%q has %q", line, r)
			require.False(t, style.ASCII && r > '~', "%q has %q", line, r)
		}
	}
}

func TestTextsFit(t *testing.T) {
	r := testneeds.Rand(t)
	check := func(m placement.Machine) {
		for _, style := range []draw.Style{{}, {Width: 60}, {Width: 80, ASCII: true}, {Width: 120}} {
			fits(t, draw.Picture(m, nil, style), style)
			fits(t, draw.Matrix(m, style), style)
		}
	}
	for _, machine := range machines {
		check(machine())
	}
	for range testneeds.Count(60, 2000) {
		check(anyMachine(r))
	}
}

// coresLine finds the CPUs that a line about cores names, whatever its breaks.
var coresLine = regexp.MustCompile(`(?:threads?(?: each)?|known cores), CPUs? ((?:[0-9-]+,? ?)+)`)

// shown are the CPUs that the lines about cores name.
func shown(picture string) (cpus []string) {
	plain := strings.Join(strings.FieldsFunc(picture, func(r rune) bool { return r == ' ' || r == '\n' || r == '│' }), " ")
	for _, found := range coresLine.FindAllStringSubmatch(plain, -1) {
		cpus = append(cpus, strings.ReplaceAll(found[1], " ", ""))
	}
	return cpus
}

// Each CPU stands in one line, and each GPU and NIC in one.
func TestEverythingAppears(t *testing.T) {
	r := testneeds.Rand(t)
	for range testneeds.Count(40, 2000) {
		m := anyMachine(r)
		text := draw.Picture(m, nil, draw.Style{Width: draw.MaxWidth})
		var all []string
		inLines := 0
		for _, list := range shown(text) {
			all = append(all, list)
			inLines += must(list).Len()
		}
		require.Equal(t, len(m.Topology.CPUs), inLines, text)
		require.Equal(t, len(m.Topology.CPUs), must(strings.Join(all, ",")).Len(), text)
		for _, g := range m.GPUs {
			require.Equal(t, 1, strings.Count(text, " "+g.PCI+" "), text)
		}
		for _, n := range m.Topology.NICs {
			require.Equal(t, 1, strings.Count(text, " "+n.Bus.Address+" "), text)
		}
	}
}
