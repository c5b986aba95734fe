package arch

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// guide is the page with the map, of which every row is one line of a screen.
const (
	guide        = "CONTRIBUTING.md"
	maxMapRows   = 60
	maxMapColumn = 120
)

// mapRow is a row of the map: a folder, indented by two for each folder above it that has a row, and what is there.
var (
	mapRow = regexp.MustCompile(`^    ( *)([a-z0-9_/]+)/ +(\S.*)$`)
	// beside are folders that a row names after its own, as "gather/".
	beside = regexp.MustCompile(`\b([a-z0-9_]+)/`)
)

// mapped returns the folders that the map's rows name. A folder within a row's text lies in that row's folder or beside
// it.
func mapped(page string) (rows []string, named map[string]bool, problems []string) {
	named = map[string]bool{}
	_, text, _ := strings.Cut(page, "## The map")
	text, _, _ = strings.Cut(text, "\n## ")
	var above []string
	for line := range strings.Lines(text) {
		m := mapRow.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue
		}
		depth := len(m[1]) / 2
		if depth > len(above) {
			problems = append(problems, fmt.Sprintf("%s: %s stands deeper than its parent allows", guide, m[2]))
			continue
		}
		folder := path.Join(append(slices.Clone(above[:depth]), m[2])...)
		above = append(above[:depth], m[2])
		rows = append(rows, folder)
		named[folder] = true
		for _, b := range beside.FindAllStringSubmatch(m[3], -1) {
			named[path.Join(folder, b[1])], named[path.Join(path.Dir(folder), b[1])] = true, true
		}
		if len([]rune(line)) > maxMapColumn {
			problems = append(problems, fmt.Sprintf("%s: the row of %s has over %d columns", guide, folder, maxMapColumn))
		}
	}
	return rows, named, problems
}

// The map leads to each package: its folder is in it, or it is one of examples/ or a part of a test's rig.
func TestMapNamesEachPackage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testneeds.Repository(t), guide))
	require.NoError(t, err)
	rows, named, problems := mapped(string(page))
	rooms := map[string]bool{}
	for _, s := range sources(t) {
		rooms[s.room] = true
	}
	for _, row := range rows {
		if _, err := os.Stat(filepath.Join(testneeds.Repository(t), row)); err != nil {
			problems = append(problems, fmt.Sprintf("%s: its map names %s, which is not there", guide, row))
		}
	}
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		part := strings.HasPrefix(room, "examples/") || strings.HasPrefix(room, "internal/interop/") ||
			strings.HasSuffix(room, "test") || path.Base(path.Dir(room)) == "cmd"
		if !named[room] && !part {
			problems = append(problems, fmt.Sprintf("%s: its map does not name %s", guide, room))
		}
	}
	require.LessOrEqual(t, len(rows), maxMapRows, "the map fits one screen")
	report(t, problems)
}

func TestMapCatches(t *testing.T) {
	const page = "## The map\n\n    a/    first\n      b/  inside; c/: beside it\n\n## Rules\n\n    x/    not of the map\n"
	rows, named, problems := mapped(page)
	require.Equal(t, []string{"a", "a/b"}, rows)
	require.Empty(t, problems)
	require.True(t, named["a/b"] && named["a/c"] && !named["x"])
	const deep = "## The map\n\n    a/    first\n        c/  too deep\n    b/    long"
	_, _, problems = mapped(deep + strings.Repeat("x", maxMapColumn))
	require.Len(t, problems, 2)
}
