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

// guide is the page with the map. Each row of the map is one line.
const (
	guide        = "CONTRIBUTING.md"
	maxMapRows   = 60
	maxMapColumn = 120
)

// mapRow matches a row of the map: a folder and its description. It is indented by two for each parent folder that
// has a row.
var (
	mapRow = regexp.MustCompile(`^    ( *)([a-z0-9_/]+)/ +(\S.*)$`)
	// beside matches folders in the description of a row, such as "gather/".
	beside = regexp.MustCompile(`\b([a-z0-9_]+)/`)
)

// mapped returns the folders in the map's rows. A folder in a description lies in the row's folder or next to it.
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
			problems = append(problems, fmt.Sprintf("%s: %s is indented deeper than its parent allows", guide, m[2]))
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

// The map contains the folder of each package, except for examples/ and parts of test rigs.
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
