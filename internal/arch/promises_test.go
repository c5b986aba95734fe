package arch

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// threatModel is the page whose tables make promises. The last column of each table names the tests of the row.
const threatModel = "docs/internals/security.md"

// heldBy is the heading of that column.
const heldBy = "held by"

// testName matches a test on the page: `launcher/internal/wire.TestFrames/suspend`.
var testName = regexp.MustCompile("`([a-z0-9_/]+)\\.((?:Test|Fuzz)[A-Za-z0-9_]+)(?:/[^`]*)?`")

// unheld finds promises whose row names no test, and tests that do not exist.
func unheld(page string, exists func(room, test string) bool) (problems []string, promises int) {
	inTable := false
	for i, line := range strings.Split(page, "\n") {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		last := strings.TrimSpace(cells[len(cells)-1])
		switch {
		case !strings.HasPrefix(line, "|"):
			inTable = false
			continue
		case last == heldBy:
			inTable = true
			continue
		case !inTable || strings.HasPrefix(last, "---"):
			continue
		}
		promises++
		named := testName.FindAllStringSubmatch(last, -1)
		if len(named) == 0 {
			problems = append(problems, fmt.Sprintf("%s:%d: no test is named: %s", threatModel, i+1, line))
		}
		for _, n := range named {
			if !exists(n[1], n[2]) {
				problems = append(problems, fmt.Sprintf("%s:%d: %s has no %s", threatModel, i+1, n[1], n[2]))
			}
		}
	}
	return problems, promises
}

func TestEachSecurityPromiseNamesItsTest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testneeds.Repository(t), threatModel))
	require.NoError(t, err)
	tests := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			s.declared(func(function string, _ ast.Decl) { tests[s.room+"."+function] = true })
		}
	}
	problems, promises := unheld(string(page), func(room, test string) bool { return tests[room+"."+test] })
	report(t, problems)
	require.Greater(t, promises, 20, "the page has lost its tables, or their last column is not called %q", heldBy)
}

func TestUnheldPromisesAreFound(t *testing.T) {
	page := "| promise | held by |\n| --- | --- |\n" +
		"| kept | `env.TestHere`, `env.FuzzHere/seed` |\n| no test | |\n| a lost one | `env.TestGone` |\n\n" +
		"| other | table |\n| --- | --- |\n| a | b |\n"
	problems, promises := unheld(page, func(_, test string) bool { return !strings.HasSuffix(test, "Gone") })
	require.Equal(t, 3, promises)
	require.Len(t, problems, 2)
	require.Contains(t, problems[0], "no test is named")
	require.Contains(t, problems[1], "env has no TestGone")
}
