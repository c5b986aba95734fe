package dialect

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHelp(t *testing.T) {
	for _, d := range dialects {
		help := d.Help(nil)
		for line := range strings.Lines(help) {
			require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), helpWidth, line)
			require.Equal(t, strings.TrimRight(line, " \n"), strings.TrimSuffix(line, "\n"), "no blanks at the end")
		}
		for o := range d.Options {
			usage := (&Flag{Option: o, oneDash: d == Mpiexec}).Usage()
			shown := strings.Contains(help, "\n  "+usage+"\n") || strings.Contains(help, "\n  "+usage+" ")
			own := o.Group < numHelpGroups || o.Group == GroupMPI && d.slots != slotsOfGorun
			own = own && (d.python || o.Name() != "print-completion")
			require.Equal(t, own, shown, "%s: %s", d.Name, o.Usage())
			for _, name := range o.AllNames() { // a help of another launcher's options names every spelling that we take
				if d != Gorun && d != Run && (own || o.Group == GroupAccepted) {
					require.Regexp(t, `\s`+(&Flag{Option: o, oneDash: d == Mpiexec}).spelling(name)+`[\s,.]`, help, d.Name)
				}
			}
		}
		require.NotRegexp(t, `--\w+_`, help, "underscores are no second spelling to show")
		require.Less(t, strings.Index(help, "Examples:"), strings.Index(help, "  -h, -"))
		require.Contains(t, help, "Hosts and nodes:")
		require.Less(t, strings.Index(help, "  -V, -"), strings.Index(help, "Exit codes:"))
	}
}

// You can run every command line in the help.
func TestExamplesParse(t *testing.T) {
	for _, d := range dialects {
		require.NotEmpty(t, d.examples)
		for _, e := range d.examples {
			require.True(t, strings.HasPrefix(e[0]+" ", d.Name+" "), e[0])
			inv := mustParse(t, e[0])
			require.Same(t, d, inv.Dialect)
			require.Empty(t, inv.Notes)
		}
	}
}

// docs/reference/options.md has every spelling and every variable, and all its rows are valid.
func TestDocsNameEveryOption(t *testing.T) {
	text := Markdown(nil)
	for _, d := range dialects {
		for o := range d.Options {
			for _, n := range o.AllNames() {
				require.Contains(t, text, "`"+Spelling(n))
			}
			for _, v := range o.Variables() {
				require.Contains(t, text, "`"+v+"`")
			}
		}
	}
}

// TestOverview: gorun --help fits on a screen, and every option that only gorun has belongs to a topic.
func TestOverview(t *testing.T) {
	overview := Gorun.Overview(nil)
	require.LessOrEqual(t, strings.Count(overview, "\n"), 40) // at most 50 with the commands
	pages := map[string]string{"": overview}
	for _, name := range Topics() {
		page, ok := TopicHelp(name, nil)
		require.True(t, ok)
		pages[name] = page
	}
	for name, page := range pages {
		for line := range strings.Lines(page) {
			require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), helpWidth, "%s: %s", name, line)
		}
	}
	delete(pages, allTopics)
	everything := strings.Join(slices.Collect(maps.Values(pages)), "")
	for o := range Gorun.Options {
		if o.Group < numHelpGroups && o.Name() != "print-completion" {
			require.Contains(t, everything, "\n  "+o.Usage(), "no topic has it")
		}
	}
	_, ok := TopicHelp("nonsense", nil)
	require.False(t, ok)
}
