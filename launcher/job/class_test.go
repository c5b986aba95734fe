package job

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/classes.txt
var classesText string

// Each line of the table has a cause, other fields of the result, and the class with its reason.
func TestClasses(t *testing.T) {
	seen := map[string]bool{}
	for line := range strings.Lines(classesText) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), " | ")
		require.Len(t, cells, 3, line)
		at := slices.Index(causeNames[:], cells[0])
		require.GreaterOrEqual(t, at, 0, line)
		r := Result{Cause: Cause(at)}
		require.NoError(t, json.Unmarshal([]byte(cells[1]), &r), line)
		r.SetSignalNames(name)
		r.Classify()
		assert.Equal(t, cells[2], r.Class+": "+r.Why, line)
		seen[cells[0]] = true
	}
	assert.Len(t, seen, len(causeNames), "a cause has no line")
}
