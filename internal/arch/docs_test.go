package arch

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// Size limits of the documentation, in words. Pages below docs/reference are generated from tables in the code.
const (
	maxReadmeWords = 700
	maxPageWords   = 1_500
)

// page is a Markdown file of the repository.
type page struct {
	file string // slash-separated, relative to the module's root
	text string
}

// pages reads the README and all pages below docs and examples.
func pages(t *testing.T) []page {
	t.Helper()
	root := testneeds.Repository(t)
	var all []page
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "examples/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			relative, err := filepath.Rel(root, file)
			require.NoError(t, err)
			all = append(all, page{filepath.ToSlash(relative), string(text)})
		}
	}
	require.NotEmpty(t, all)
	return all
}

func TestPagesAreShort(t *testing.T) {
	numPages := 0
	for _, p := range pages(t) {
		limit := 0
		switch {
		case p.file == "README.md":
			limit = maxReadmeWords
		case path.Dir(p.file) == "docs":
			limit = maxPageWords
			numPages++
		default:
			continue
		}
		if n := len(strings.Fields(p.text)); n > limit {
			t.Errorf("%s has %d words (at most %d)", p.file, n, limit)
		}
	}
	require.Equal(t, 10, numPages, "pages of docs: what is new belongs into one of the ten, into reference or internals")
}

// link matches the target of a Markdown link, with its anchor.
var link = regexp.MustCompile(`\]\(([^)\s#]*)(#[^)\s]*)?\)`)

// deadLinks returns the links of pages whose file or anchor does not exist. It ignores links to other sites.
func deadLinks(all []page, exists func(file string) bool) (problems []string) {
	anchors := map[string]map[string]bool{}
	for _, p := range all {
		anchors[p.file] = anchorsOf(p.text)
	}
	for _, p := range all {
		for _, m := range link.FindAllStringSubmatch(p.text, -1) {
			target, anchor := m[1], strings.TrimPrefix(m[2], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file := p.file
			if target != "" {
				file = path.Join(path.Dir(p.file), target)
			}
			if !exists(file) {
				problems = append(problems, fmt.Sprintf("%s: there is no %s", p.file, file))
			} else if known, isPage := anchors[file]; isPage && anchor != "" && !known[anchor] {
				problems = append(problems, fmt.Sprintf("%s: %s has no heading #%s", p.file, file, anchor))
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
	report(t, deadLinks(pages(t), func(file string) bool {
		_, err := os.Stat(filepath.Join(root, file))
		return err == nil
	}))
}

func TestDeadLinksAreFound(t *testing.T) {
	all := []page{
		{"README.md", "[a](docs/a.md) [b](docs/a.md#two-words) [c](https://example.org/x) [d](#here)\n\n# Here\n"},
		{"docs/a.md", "## Two words!\n\n[gone](b.md) [no heading](../README.md#there)\n"},
	}
	exists := func(file string) bool { return file == "README.md" || file == "docs/a.md" }
	require.Equal(t, []string{"docs/a.md: there is no docs/b.md", "docs/a.md: README.md has no heading #there"},
		deadLinks(all, exists))
}
