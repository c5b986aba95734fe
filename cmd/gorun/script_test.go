package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary each of the programs that scripts type: it is
// copied under their names into a folder of PATH.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"gorun": main, "torchrun": main, "mpirun": main, "mpiexec": main, "torch.distributed.launch": main,
	})
}

// TestScripts runs testdata/script/*.txtar: what a user types, what stands on
// the screen, the exit code. Beside testscript's own commands there is
//
//	exits CODE PROGRAM [ARGS...]    run a program that must exit with that code
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  filepath.Join("testdata", "script"),
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGS...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("%q exited with %d, not %d", args[1:], code, want)
	}
}
