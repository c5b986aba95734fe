package interop

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// playSpeak prints a line on each stream.
func playSpeak() int {
	fmt.Println("out <b> & x")
	fmt.Fprintln(os.Stderr, "err")
	return 0
}

// printing is a set of output options of a launcher. DIR in them is a new directory.
type printing struct {
	layer   testneeds.Layer
	name    string // name under which gorun runs
	options []string
}

// TestPrintingOfLaunchers: under a launcher's name, gorun prints the same output and writes the same files as that
// launcher.
func TestPrintingOfLaunchers(t *testing.T) {
	for _, c := range []printing{
		{testneeds.LayerOpenMPI, "mpirun", []string{
			"--tag-output", "--timestamp-output", "--tag-output --timestamp-output", "--output-filename DIR",
			"--output-filename DIR:nocopy",
		}},
		{testneeds.LayerOpenMPI5, "mpirun", []string{
			"--output tag", "--output rank", "--output timestamp", "--output tag,timestamp", "--output tag,merge",
			"--output file=DIR/f:nocopy",
		}},
		{testneeds.LayerMPICH, "mpiexec", []string{
			"-l", "-prepend-rank", "-prepend-pattern [%r@%h:%g:%p%%]",
			"-outfile-pattern DIR/%r.%h.out -errfile-pattern DIR/%r.%h.err",
		}},
	} {
		for i, options := range c.options {
			t.Run(fmt.Sprint(c.layer, i), func(t *testing.T) {
				t.Parallel()
				library := testneeds.NeedMPI(t, c.layer)
				called := filepath.Join(t.TempDir(), c.name)
				require.NoError(t, os.Symlink(built("gorun"), called))
				theirs := printed(t, library, options, 3, func(words ...string) []string { return library.Launch(2, words...) })
				ours := printed(t, library, options, 1, func(words ...string) []string {
					return append([]string{called, "-q", "--bind-to", "none", "-n", "2"}, words...)
				})
				require.Equal(t, theirs, ours, options)
			})
		}
	}
}

// printed is the result of two ranks with some options: sorted lines of both streams, and files by name. Hydra needs
// several tries: it may end by SIGPIPE if its ranks end at once.
func printed(
	t *testing.T, library testneeds.MPI, options string, tries int, launch func(...string) []string,
) map[string]any {
	t.Helper()
	dir := t.TempDir()
	words := append(strings.Fields(strings.ReplaceAll(options, "DIR", dir)), self(t))
	run := job{argv: launch(words...)}.with(append(library.Environ, roleVariable+"=speak")...)
	got := run.run(t)
	for ; got.code == 128+int(syscall.SIGPIPE) && tries > 1; tries-- {
		got = run.run(t)
	}
	require.Zero(t, got.code, got.stderr)
	all := map[string]any{"stdout": linesOf(unvarying(got.stdout)), "stderr": linesOf(unvarying(got.stderr))}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all[unvarying(strings.TrimPrefix(path, dir))] = string(content)
		return err
	}))
	return all
}

// varying matches text that differs between jobs: times in ctime format, and job names of Open MPI 5.
var varying = regexp.MustCompile(`[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]\d \d\d:\d\d:\d\d \d{4}|prterun-.*@`)

func unvarying(text string) string {
	return varying.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "prterun-") {
			return ""
		}
		return "TIME"
	})
}
