package arch

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"gorun/internal/pages"
	"gorun/internal/testneeds"
)

// Size limits of the documentation, in words. Pages below docs/reference are generated from tables in the code.
const (
	maxReadmeWords = 700
	maxGuideWords  = 900
	maxPageWords   = 1_500
	maxDocsWords   = 25_000 // of all pages below docs, without docs/reference
)

// markdown reads the README and all pages below docs and examples.
func markdown(t *testing.T) []pages.Page {
	t.Helper()
	all, err := pages.All(testneeds.Repository(t))
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// words counts the words of a text. Bars and rules of tables do not count.
func words(text string) int {
	return len(slices.DeleteFunc(strings.Fields(text), func(field string) bool {
		return !strings.ContainsFunc(field, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	}))
}

func TestPagesAreShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testneeds.Repository(t), guide))
	require.NoError(t, err)
	require.LessOrEqual(t, len(strings.Fields(string(text))), maxGuideWords, guide)
	numPages, total := 0, 0
	for _, p := range markdown(t) {
		if strings.HasPrefix(p.File, "docs/") && path.Dir(p.File) != "docs/reference" {
			total += words(p.Text)
		}
		limit := 0
		switch {
		case p.File == "README.md":
			limit = maxReadmeWords
		case path.Dir(p.File) == "docs":
			limit = maxPageWords
			numPages++
		default:
			continue
		}
		if n := len(strings.Fields(p.Text)); n > limit {
			t.Errorf("%s has %d words (at most %d)", p.File, n, limit)
		}
	}
	require.LessOrEqual(t, total, maxDocsWords, "words of docs without the reference")
	require.Equal(t, 10, numPages, "pages of docs: what is new belongs into one of the ten, into reference or internals")
}

// Who imports a package finds an example in its documentation. Packages for tests alone need none.
func TestPublicPackagesHaveExamples(t *testing.T) {
	has := map[string]bool{}
	for _, s := range sources(t) {
		if s.tree.Name.Name == "main" || within(s.room, "internal") || strings.Contains(s.room, "/internal/") ||
			strings.HasSuffix(s.room, "test") {
			continue
		}
		s.declared(func(function string, _ ast.Decl) {
			has[s.room] = has[s.room] || s.test && strings.HasPrefix(function, "Example")
		})
	}
	for room, has := range has {
		if !has {
			t.Errorf("%s has no example: add example_test.go", room)
		}
	}
}

// link matches the target of a Markdown link, with its anchor.
var link = regexp.MustCompile(`\]\(([^)\s#]*)(#[^)\s]*)?\)`)

// deadLinks returns the links of pages whose file or anchor does not exist. It ignores links to other sites.
func deadLinks(all []pages.Page, exists func(file string) bool) (problems []string) {
	anchors := map[string]map[string]bool{}
	for _, p := range all {
		anchors[p.File] = anchorsOf(p.Text)
	}
	for _, p := range all {
		for _, m := range link.FindAllStringSubmatch(p.Text, -1) {
			target, anchor := m[1], strings.TrimPrefix(m[2], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file := p.File
			if target != "" {
				file = path.Join(path.Dir(p.File), target)
			}
			if !exists(file) {
				problems = append(problems, fmt.Sprintf("%s: there is no %s", p.File, file))
			} else if known, isPage := anchors[file]; isPage && anchor != "" && !known[anchor] {
				problems = append(problems, fmt.Sprintf("%s: %s has no heading #%s", p.File, file, anchor))
			}
		}
	}
	return problems
}

// anchorsOf returns the anchors that GitHub generates for a page's headings.
func anchorsOf(text string) map[string]bool {
	anchors, isCode := map[string]bool{}, false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			isCode = !isCode
		}
		title, isHeading := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if isCode || !isHeading || !strings.HasPrefix(line, "#") {
			continue
		}
		title = link.ReplaceAllString(title, "]")
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title))
		for n := 1; anchors[anchor]; n++ {
			anchor = fmt.Sprint(strings.TrimSuffix(anchor, fmt.Sprint("-", n-1)), "-", n)
		}
		anchors[anchor] = true
	}
	return anchors
}

func TestLinksLeadSomewhere(t *testing.T) {
	root := testneeds.Repository(t)
	report(t, deadLinks(markdown(t), func(file string) bool {
		_, err := os.Stat(filepath.Join(root, file))
		return err == nil
	}))
}

func TestDeadLinksAreFound(t *testing.T) {
	all := []pages.Page{
		{
			File: "README.md",
			Text: "[a](docs/a.md) [b](docs/a.md#two-words) [c](https://example.org/x) [d](#here)\n\n# Here\n",
		},
		{File: "docs/a.md", Text: "## Two words!\n\n[gone](b.md) [no heading](../README.md#there)\n"},
	}
	exists := func(file string) bool { return file == "README.md" || file == "docs/a.md" }
	require.Equal(t, []string{"docs/a.md: there is no docs/b.md", "docs/a.md: README.md has no heading #there"},
		deadLinks(all, exists))
}
