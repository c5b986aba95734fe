package faults

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// The table is between these lines of the Markdown file.
const (
	tableBegins = "<!-- faults: the table begins -->\n"
	tableEnds   = "<!-- faults: the table ends -->\n"
)

// column holds the verdicts of one launcher by case. Cases that do not apply are missing.
type column map[string]verdict

// TestPeers runs the matrix for gorun and other launchers, and prints the table, or writes it with -table. Only
// gorun must pass all cases.
func TestPeers(t *testing.T) {
	if !testneeds.Soak() && *tableFlag == "" {
		return
	}
	columns := map[string]column{}
	for _, name := range peerNames {
		t.Run(name, func(t *testing.T) { columns[name] = fill(t, known(t, name)) })
	}
	text := table(columns)
	t.Log("\n" + text)
	if *tableFlag != "" {
		require.NoError(t, replaceTable(*tableFlag, text))
	}
}

// fill runs all cases that apply to a launcher, two at a time.
func fill(t *testing.T, l launcher) column {
	found, mutex, pending := column{}, sync.Mutex{}, sync.WaitGroup{}
	for _, f := range faults() {
		if f.own && !l.ours || (f.root || f.ownCgroup) && os.Geteuid() != 0 {
			continue
		}
		if _, err := testneeds.FindCgroup(f.cgroup); f.cgroup != "" && err != nil {
			continue
		}
		places <- struct{}{}
		pending.Go(func() {
			defer func() { <-places }()
			v := f.try(l)
			mutex.Lock()
			defer mutex.Unlock()
			found[f.name] = v
			t.Logf("%s: %t %s %q", f.name, v.met(), v.why, v.left)
			if l.ours && !v.met() {
				t.Errorf("%s: %s %q", f.name, v.why, v.left)
			}
		})
	}
	pending.Wait()
	return found
}

// table writes the columns as Markdown.
func table(columns map[string]column) string {
	var b strings.Builder
	b.WriteString("| case | criterion |")
	for _, name := range peerNames {
		fmt.Fprintf(&b, " %s |", name)
	}
	b.WriteString("\n| --- | --- |" + strings.Repeat(" --- |", len(peerNames)) + "\n")
	totals := []struct {
		what  string
		holds func(v verdict) bool
	}{
		{"criteria met", verdict.met},
		{"no hang and nothing left, whatever else", func(v verdict) bool {
			return len(v.left) == 0 && !strings.HasPrefix(v.why, "hangs")
		}},
	}
	for _, total := range totals {
		fmt.Fprintf(&b, "| **%s** | |", total.what)
		for _, name := range peerNames {
			fmt.Fprintf(&b, " **%d of %d** |", columns[name].count(total.holds), len(columns[name]))
		}
		b.WriteString("\n")
	}
	for _, f := range faults() {
		fmt.Fprintf(&b, "| %s | %s |", f.name, f.criterion)
		for _, name := range peerNames {
			fmt.Fprintf(&b, " %s |", columns[name].cell(f.name))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// count counts the cases for which holds is true.
func (c column) count(holds func(verdict) bool) (n int) {
	for _, v := range c {
		if holds(v) {
			n++
		}
	}
	return n
}

// cell describes a case in one or a few words.
func (c column) cell(name string) string {
	v, tried := c[name]
	why, _, _ := strings.Cut(v.why, ":")
	why, _, _ = strings.Cut(why, ",")
	switch {
	case !tried:
		return "–"
	case v.met():
		return "met"
	case len(v.left) == 0 || why == "hangs":
		return "no: " + why
	case why == "":
		return fmt.Sprintf("no: %d left", len(v.left))
	}
	return fmt.Sprintf("no: %s; %d left", why, len(v.left))
}

// replaceTable puts text between the marks of a file.
func replaceTable(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(old), tableBegins)
	_, after, closed := strings.Cut(rest, tableEnds)
	if !found || !closed {
		return fmt.Errorf("%s has no lines %q and %q", path, tableBegins, tableEnds)
	}
	return os.WriteFile(path, []byte(before+tableBegins+"\n"+text+"\n"+tableEnds+after), 0o644)
}
