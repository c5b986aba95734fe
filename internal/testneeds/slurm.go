package testneeds

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// LayerSlurm is what internal/testslurm needs: root, Slurm's daemons and commands, and munged.
const LayerSlurm Layer = "slurm"

// Slurm skips unless internal/testslurm works on this machine.
func Slurm(t testing.TB) {
	t.Helper()
	if err := FindSlurm(); err != nil {
		Skip(t, LayerSlurm, err.Error())
	}
}

// FindSlurm returns what internal/testslurm lacks on this machine, as an error. It checks once per process.
var FindSlurm = sync.OnceValue(func() error {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("runs as user id %d, and Slurm's daemons need 0", uid)
	}
	for _, program := range []string{"munged", "slurmctld", "slurmd"} {
		if _, err := Daemon(program); err != nil {
			return err
		}
	}
	for _, program := range []string{"salloc", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w; .ci/setup installs it as root on Debian", err)
		}
	}
	return nil
})

// Daemon returns the path of a program that is often outside PATH.
func Daemon(name string) (string, error) {
	for _, folder := range []string{"", "/usr/sbin", "/sbin"} {
		if found, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return found, nil
		}
	}
	return "", errors.New("no " + name + " in PATH, /usr/sbin or /sbin; .ci/setup installs it as root on Debian")
}
