package signature

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// excerpt is a piece of a log from a public thread, with the causes that its author or a maintainer found there.
type excerpt struct {
	source string
	causes []string // IDs, of which each is right; "unknown" if nothing should be found
	log    string
}

func corpus(t *testing.T, name string) (list []excerpt) {
	text, err := os.ReadFile(filepath.Join("testdata", "corpus", name))
	require.NoError(t, err)
	for record := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n---\n"), "\n---\n") {
		source, rest, _ := strings.Cut(record, "\n")
		causes, log, _ := strings.Cut(rest, "\n")
		e := excerpt{strings.TrimPrefix(source, "source: "), strings.Fields(strings.TrimPrefix(causes, "cause: ")), log}
		require.True(t, strings.HasPrefix(e.source, "https://"), record)
		require.NotEmpty(t, e.causes, record)
		list = append(list, e)
	}
	return list
}

// TestCorpus measures how often the first finding is right; testdata/corpus/README.md explains the files.
func TestCorpus(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/errors.md")
	require.NoError(t, err)
	for _, c := range []struct {
		name              string
		least             int
		precision, recall float64
	}{{"tuned", 180, 0.97, 0.97}, {"heldout", 40, 0.97, 0.8}} {
		list := corpus(t, c.name+".txt")
		require.GreaterOrEqual(t, len(list), c.least)
		var right, shown, known, blamed int
		for _, e := range list {
			requireFilter(t, e.log)
			found, _, err := Scan(strings.NewReader(e.log))
			require.NoError(t, err)
			first := "unknown"
			if len(found) > 0 {
				first = found[0].ID
				shown++
			}
			if e.causes[0] != "unknown" {
				known++
				if slices.ContainsFunc(e.causes, func(id string) bool { return classOf(id) == classOf(first) }) {
					blamed++
				}
			}
			if slices.Contains(e.causes, first) {
				if first != "unknown" {
					right++
				}
			} else {
				t.Logf("%s: found %s, not %s", e.source, first, strings.Join(e.causes, " or "))
			}
		}
		precision, recall := float64(right)/float64(shown), float64(right)/float64(known)
		class := float64(blamed) / float64(known)
		row := fmt.Sprintf("| %s | %d | %d | %.3f | %.3f | %.3f |", c.name, len(list), known, precision, recall, class)
		t.Logf("excerpts, number, with a known cause, precision (%d of %d), recall, class: %s", right, shown, row)
		assert.Contains(t, string(page), row, "docs/reference/errors.md")
		assert.GreaterOrEqual(t, precision, c.precision, c.name)
		assert.GreaterOrEqual(t, recall, c.recall, c.name)
	}
}

// classOf is the class of a report in which an error is the first finding; it blames the program if nothing is known.
func classOf(id string) string {
	if m, known := ByID(id); known {
		return m.Class
	}
	return "user"
}
