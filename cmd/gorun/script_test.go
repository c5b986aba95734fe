package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary each of the programs that scripts type: it is
// copied under their names into a folder of PATH.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"gorun": main, "torchrun": main, "mpirun": main, "mpiexec": main, "prterun": main, "torch.distributed.launch": main,
		"rank": rank, "seek": seek, "python-of-scripts": printArguments,
	})
}

// TestScripts runs testdata/script/*.txtar: what a user types, what stands on
// the screen, the exit code. See commands for what they can say, and rank for
// what they start.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   filepath.Join("testdata", "script"),
		Cmds:  commands,
		Setup: surround,
	})
}

// surround tells scripts the host's name, and a program with the race detector not
// to sleep a second before it exits.
func surround(e *testscript.Env) error {
	host, err := os.Hostname()
	e.Setenv("HOST", host)
	e.Setenv("GORACE", "atexit_sleep_ms=0")
	return err
}
