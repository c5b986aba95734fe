package engine

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"gorun/env"
	"gorun/launcher/hosts"
)

var update = flag.Bool("update", false, "write what the engines say into the fixtures")

// TestFixtures: what each engine's documentation says that its jobs have in their
// environment, and what gorun makes of it.
//
// A fixture is an archive. Its comment names the source. Its files are `environ`,
// `here` (the names of this host), `path` (the commands that are found, NAME PATH),
// the engine's files by their full names, what commands print (`$ flux getattr
// hostlist`; a line that begins with ! is an error) and `want`, which -update writes.
func TestFixtures(t *testing.T) {
	files, err := filepath.Glob("testdata/engines/*.txtar")
	require.NoError(t, err)
	require.Greater(t, len(files), 30)
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			require.NoError(t, err)
			require.NotEmpty(t, archive.Comment, "the fixture names no source")
			w := worldOf(t, archive)
			got := describe(Find(w, ""))
			at := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
			if *update {
				if at < 0 {
					at, archive.Files = len(archive.Files), append(archive.Files, txtar.File{Name: "want"})
				}
				archive.Files[at].Data = []byte(got)
				require.NoError(t, os.WriteFile(name, txtar.Format(archive), 0o644))
			}
			require.GreaterOrEqual(t, at, 0, "no `want`: run with -update")
			require.Equal(t, string(archive.Files[at].Data), got)
		})
	}
}

// TestEachEngineHasFixtures: the table of kinds and the fixtures go together.
func TestEachEngineHasFixtures(t *testing.T) {
	for _, k := range kinds {
		if k.name == "slurm" {
			continue // a real one is asked
		}
		found, err := filepath.Glob("testdata/engines/" + k.name + "-*.txtar")
		require.NoError(t, err)
		require.NotEmpty(t, found, "no fixture of %s", k.name)
		broken, err := filepath.Glob("testdata/engines/broken-" + k.name + "-*.txtar")
		require.NoError(t, err)
		require.NotEmpty(t, broken, "no broken fixture of %s", k.name)
	}
}

// TestEnginesOfJobs: what tells a rank's own job from another is said of engines of the
// table, by their names there.
func TestEnginesOfJobs(t *testing.T) {
	every := env.EngineJob(func(string) (string, bool) { return "x", true })
	for _, job := range strings.Split(every, ",") {
		name, _, _ := strings.Cut(job, ":")
		require.Contains(t, Names(), name)
	}
}

// worldOf is the world that an archive describes.
func worldOf(t *testing.T, archive *txtar.Archive) World {
	content, environ := make(map[string]string), make(map[string]string)
	for _, f := range archive.Files {
		content[f.Name] = string(f.Data)
	}
	for line := range strings.Lines(content["environ"]) {
		name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		require.True(t, found, "environ: %s", line)
		environ[name] = value
	}
	return World{
		Lookup: func(name string) (string, bool) {
			value, found := environ[name]
			return value, found
		},
		ReadFile: func(name string) ([]byte, error) {
			if text, found := content[name]; found && filepath.IsAbs(name) {
				return []byte(text), nil
			}
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		},
		IsThisHost: func(name string) bool { return slices.Contains(strings.Fields(content["here"]), name) },
		LookPath: func(name string) (string, error) {
			for line := range strings.Lines(content["path"]) {
				words := strings.Fields(line)
				if words[0] == name || words[1] == name {
					return words[1], nil
				}
			}
			return "", fs.ErrNotExist
		},
		Output: func(argv ...string) ([]byte, error) {
			text, found := content["$ "+strings.Join(argv, " ")]
			if message, failed := strings.CutPrefix(text, "!"); failed || !found {
				return nil, fmt.Errorf("exit status 1: %s", strings.TrimSpace(message))
			}
			return []byte(text), nil
		},
	}
}

// describe is all that an engine said, for people to read.
func describe(f *Found, err error) string {
	switch {
	case err != nil:
		return "error: " + err.Error() + "\n"
	case f == nil:
		return "none\n"
	}
	var b strings.Builder
	say := func(format string, values ...any) { fmt.Fprintf(&b, format+"\n", values...) }
	say("engine %s", f.Engine)
	say("job    %s (%s)", f.Job, f.JobID)
	say("why    %s", f.Why)
	if len(f.Hosts) > 0 {
		say("hosts  from %s", f.From)
	}
	for _, h := range f.Hosts {
		say("       %s slots=%d at %s%s", h.Name, h.Slots, h.From, map[bool]string{true: ", here"}[h.Here])
	}
	if task := f.Task; task != nil {
		say("task   rank %d of %d, %d of %d on node %d of %d, which is %q; node 0 is at %q; step %q",
			task.Rank, task.NumTasks, task.LocalRank, task.LocalTasks, task.Node, task.NumNodes, task.NodeID, task.Addr,
			task.Step)
	}
	for _, note := range f.Notes {
		say("note   %s", note)
	}
	if f.Task != nil {
		return b.String()
	}
	if len(f.Hosts) == 1 && f.Hosts[0].Here {
		say("start  nothing, since the only host is this one")
		return b.String()
	}
	say("start  %s", describeStart(f.Start(f.Hosts)))
	if len(f.Hosts) > 1 {
		last := f.Hosts[len(f.Hosts)-1]
		say("       %s alone: %s", last.Name, describeStart(f.Start([]hosts.Host{last})))
	}
	return b.String()
}

func describeStart(s Start) string {
	words := make([]string, 0, 3)
	switch {
	case s.Once != nil:
		words = append(words, fmt.Sprintf("once %q", s.Once))
	case s.PerHost != nil:
		words = append(words, fmt.Sprintf("for each host %q", s.PerHost))
	default:
		words = append(words, "by SSH")
	}
	if s.ByFile {
		words = append(words, "(the secret in a file)")
	}
	return strings.Join(words, " ")
}
