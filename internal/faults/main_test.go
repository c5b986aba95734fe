package faults

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var (
	launcherFlag = flag.String("launcher", "gorun", "`launcher` that the matrix is for: gorun, torchrun, "+
		"mpirun.openmpi, mpiexec.hydra, or a command with {n} for the number of ranks")
	tableFlag = flag.String("table", "",
		"run the matrix for all four launchers and write the table into this Markdown `file`")
)

// bin is the directory with the programs that TestMain built: gorun, and rank, a copy of this binary that every
// user may run.
var bin string

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == roleArg {
		os.Exit(play(os.Args[2], os.Args[3:]))
	}
	flag.Parse()
	os.Exit(testAll(m))
}

func testAll(m *testing.M) int {
	if err := buildAll(); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		return 1
	}
	defer os.RemoveAll(bin)
	code := m.Run()
	if err := slurm.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		return 1
	}
	return code
}

// buildAll builds the static gorun that users get.
func buildAll() error {
	var err error
	if bin, err = os.MkdirTemp("", "faults-bin-"); err != nil {
		return err
	}
	if err := os.Chmod(bin, 0o755); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if said, err := exec.Command("cp", self, built("rank")).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w\n%s", self, err, said)
	}
	if said, err := exec.Command("make", "-C", "../..", "gorun", "BIN="+bin).CombinedOutput(); err != nil {
		return fmt.Errorf("make gorun: %w\n%s", err, said)
	}
	return nil
}

// built returns the path of a program that TestMain built.
func built(name string) string { return filepath.Join(bin, name) }
