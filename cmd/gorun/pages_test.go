package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/pages"
	"gorun/internal/testneeds"
)

// TestCommandsInPages parses each command line of gorun in the README and in the ten pages, in console blocks, tables
// and text. Their console blocks also run: see internal/interop.
func TestCommandsInPages(t *testing.T) {
	all, err := pages.All(testneeds.Repository(t))
	require.NoError(t, err)
	count := 0
	for _, p := range all {
		if !p.IsGuide() {
			continue
		}
		lines := p.Gorun()
		for _, block := range p.Console() {
			for _, c := range block.Commands {
				_, args, found := strings.Cut(" "+c.Line, " gorun ")
				if found && !strings.HasPrefix(c.Line, "git ") {
					lines = append(lines, "gorun "+args)
				}
			}
		}
		for _, line := range lines {
			_, name, _ := strings.Cut(line, " ")
			if strings.Contains(line, "…") || findCommand(name) != nil || name == "hosts check" {
				continue // it is shortened, or only names a command
			}
			count++
			split := exec.Command("bash", "-c", `gorun() { printf '%s\0' "$@"; }`+"\n"+line)
			words, err := split.Output()
			require.NoError(t, err, "%s: %s", p.File, line)
			args := strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00")
			_, err = parseWords(args, aroundOf("HOME=/home/me"))
			assert.NoError(t, err, "%s: %s", p.File, line)
		}
	}
	require.Greater(t, count, 100)
}
