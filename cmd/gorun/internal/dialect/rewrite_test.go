package dialect

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRewrite shows the form that urfave/cli reads.
func TestRewrite(t *testing.T) {
	for line, want := range map[string]string{
		"-n 4 x -n 5":                 "--np=4 -- x -n 5",
		"-n4 -np=3 --np 2 x":          "--np=4 --np=3 --np=2 -- x",
		"-wdir /d --nproc_per_node=2": "--chdir=/d --nproc-per-node=2 --",
		"-mca a b --mca=c x":          "--mca=a=b --mca=c -- x",
		"-vvq x":                      "--verbose=true --verbose=true --quiet=true -- x",
		"-q=0 --pty=true x":           "--quiet=0 --pty=true -- x",
		"--stdin -1 x":                "--stdin=-1 -- x",
		"-x A=B=C x":                  "--x=A=B=C -- x",
		"-- -n 4":                     "-- -n 4",
		"- -n 4":                      "-- - -n 4",
		"-n 1 a : -n 2 b":             "--np=1 -- a",
		"-n 1 a : b":                  "--np=1 -- a : b",
		"-n 1 a : b : -m -n 2 c":      "--np=1 -- a : b",
		"-t3 -r0:1,1:2 x":             "--tee=3 --redirects=0:1,1:2 -- x",
	} {
		require.Equal(t, want, strings.Join(Gorun.rewrite(strings.Fields(line)).args(), " "), line)
	}
	require.Equal(t, "--nnodes=1 --standalone=true --tee=3 -- x : -n 2",
		strings.Join(Torchrun.rewrite(strings.Fields("--nn 1 --stand -t3 x : -n 2")).args(), " "))
}

// FuzzRewrite checks the invariants of all command lines. Newlines separate words. The seeds are in testdata/fuzz.
func FuzzRewrite(f *testing.F) {
	f.Fuzz(func(t *testing.T, line string, which uint8) {
		d := dialects[int(which)%len(dialects)]
		args := strings.Split(line, "\n")
		kept := slices.Clone(args)
		bound := *d
		bound.line = newLine(d)
		d = &bound
		r := d.rewrite(args)
		require.Equal(t, kept, args, "the words themselves are never changed")

		tail := r.program
		if r.more {
			require.True(t, d.mpmd)
			if !d.colons {
				require.NotEmpty(t, r.next, "a colon promises another program")
			}
			tail = append(append(slices.Clone(r.program), ":"), r.next...)
		}
		require.Equal(t, tail, args[len(args)-len(tail):], "the program and its arguments pass byte for byte")
		requireNormal(t, d, r)

		again := d.rewrite(r.args())
		require.Empty(t, again.problems, "the one form is read without a problem")
		require.Equal(t, r.args(), again.args(), "and stays as it is")

		if _, err := Parse(strings.Fields(d.Name)[0], args, around()); err != nil {
			var usage *UsageError
			require.ErrorAs(t, err, &usage)
			require.NotEmpty(t, usage.Lines())
			require.NotContains(t, usage.Lines(), "")
		}
	})
}

// requireNormal requires a value for each option that takes one.
func requireNormal(t *testing.T, d *Dialect, r rewritten) {
	t.Helper()
	for _, o := range r.options {
		require.NotNil(t, o.Option)
		require.Same(t, o.Option, d.exact(Spelling(o.Option.Name())))
		require.NotEmpty(t, o.Text)
	}
}
