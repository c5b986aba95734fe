// Package pages reads the Markdown pages of the repository for tests: README.md, docs and examples.
//
// A page shows commands in console blocks. The words after "console" say what a block needs, beside gorun and the
// files that pages name:
//
//	```console hosts
//	$ gorun -H node1:4,node2:4 ./trainer
//	```
package pages

import (
	"os"
	"path/filepath"
	"strings"
)

// Page is one page.
type Page struct {
	File string // slash-separated, relative to the repository
	Text string
}

// All returns all pages of the repository at root.
func All(root string) ([]Page, error) {
	var all []Page
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "examples/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			relative, err := filepath.Rel(root, file)
			if err != nil {
				return nil, err
			}
			all = append(all, Page{filepath.ToSlash(relative), string(text)})
		}
	}
	return all, nil
}

// IsGuide reports whether the page is the README or one of the ten pages that describe tasks.
func (p Page) IsGuide() bool {
	return p.File == "README.md" || strings.HasPrefix(p.File, "docs/") && strings.Count(p.File, "/") == 1
}

// Block is one console block.
type Block struct {
	Line     int      // number of its first line
	Needs    []string // words after "console"
	Commands []Command
}

// Command is a command in a block, with the output that the page shows.
type Command struct {
	Line   string
	Output []string
}

// Console returns the console blocks of the page.
func (p Page) Console() []Block {
	var blocks []Block
	var open *Block
	number := 0
	for line := range strings.Lines(p.Text) {
		number++
		line = strings.TrimRight(line, "\n")
		switch {
		case open == nil && strings.HasPrefix(line, "```"):
			words := strings.Fields(strings.TrimPrefix(line, "```"))
			open = &Block{Line: number}
			if len(words) > 0 && words[0] == "console" {
				blocks = append(blocks, Block{Line: number, Needs: words[1:]})
				open = &blocks[len(blocks)-1]
			}
		case strings.HasPrefix(line, "```"):
			open = nil
		case open == nil:
		case strings.HasPrefix(line, "$ "):
			open.Commands = append(open.Commands, Command{Line: line[2:]})
		case len(open.Commands) > 0:
			last := &open.Commands[len(open.Commands)-1]
			if before, more := strings.CutSuffix(last.Line, `\`); more && last.Output == nil {
				last.Line = before + strings.TrimPrefix(line, "> ")
			} else {
				last.Output = append(last.Output, line)
			}
		}
	}
	return blocks
}

// Gorun returns the command lines in the page's text and tables that start with gorun: `gorun -n 4 ./trainer`.
func (p Page) Gorun() []string {
	var lines []string
	isBlock := false
	for line := range strings.Lines(p.Text) {
		if strings.HasPrefix(line, "```") {
			isBlock = !isBlock
		}
		if isBlock {
			continue
		}
		for i, span := range strings.Split(line, "`") {
			if span = strings.ReplaceAll(span, `\|`, "|"); i%2 == 1 && strings.HasPrefix(span, "gorun ") {
				lines = append(lines, span)
			}
		}
	}
	return lines
}
