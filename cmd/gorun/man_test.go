package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/testneeds"
)

var manDir = flag.String("man", "", "write the manual pages to this directory (make man)")

// manDate is the date in manual pages without SOURCE_DATE.
const manDate = "2026-11-24"

// manPages returns the manual pages: gorun(1), one for each command in section 1 and one for each topic in section 7.
func manPages(t *testing.T) map[string]string {
	t.Helper()
	version, err := os.ReadFile(filepath.Join(testneeds.Repository(t), "VERSION"))
	require.NoError(t, err)
	date := os.Getenv("SOURCE_DATE")
	if date == "" {
		date = manDate
	}
	head := dialect.ManHead{Section: 1, Date: date, Version: strings.TrimSpace(string(version))}
	pages, all := map[string]string{}, []string{"gorun"}
	for _, c := range publicCommands() {
		all = append(all, "gorun-"+c.Name)
	}
	seeAlso := func(name string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(other string) bool { return other == name })
	}
	head.Name, head.Summary, head.See = "gorun", "run a program as the ranks of one job", seeAlso("gorun")
	c, page := dialect.Gorun.Manual()
	pages["gorun.1"] = dialect.Man(head, &c, page, publicCommands())
	for _, e := range commandList() {
		cmd := e.manual()
		if cmd.Hidden {
			continue
		}
		head.Name, head.Summary = "gorun-"+e.name, cmd.Usage
		head.See = seeAlso(head.Name)
		pages[head.Name+".1"] = dialect.Man(head, &cmd.Command, cmd.Page, nil)
	}
	head.Section, head.See = 7, all
	for _, topic := range dialect.Topics() {
		if topic != "all" { // gorun(1)
			head.Name = "gorun-" + topic
			pages[head.Name+".7"] = dialect.TopicMan(head, topic)
		}
	}
	return pages
}

// Every manual page has the options of the help, and man formats it without a warning.
func TestManualPages(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	pages := manPages(t)
	require.Greater(t, len(pages), 25)
	for name, text := range pages {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	plain := strings.NewReplacer(`\-`, "-", `\(dq`, `"`, `\e`, `\`)
	eachCommand(t, func(t *testing.T, cmd *command) {
		page := plain.Replace(pages["gorun-"+cmd.Name+".1"])
		for _, f := range cmd.Flags {
			if f := f.(*dialect.Flag); !f.Hidden && !f.Refused() {
				require.Contains(t, page, "\n.B "+f.Usage()+"\n"+strings.ReplaceAll(f.Help, "\n", " ")+"\n")
			}
		}
	})
	man := testneeds.Program(t, "man", "man")
	for name := range pages {
		format := exec.Command(man, "--warnings", "--encoding=UTF-8", "--local-file", filepath.Join(dir, name))
		var warnings strings.Builder
		format.Stderr = &warnings
		require.NoError(t, format.Run())
		require.Empty(t, warnings.String(), name)
	}
}
