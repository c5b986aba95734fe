package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Programs are what the measurements run; a path is empty where this machine lacks the program.
type Programs struct {
	Gorun, Forkloop, Stand, Flood, Storeload string // always there
	Hydra, OpenMPI                           string
	Torchrun, Python                         string // of .venv
	True                                     string

	dir string
}

// Sanitized are the compiler's flags with which tests compile our C programs.
var Sanitized = []string{"-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}

// FindPrograms compiles our own C programs from internal/bench/csrc, with flags of the caller's choice, and looks for the peers. It
// runs in the repository's root.
func FindPrograms(gorun string, flags ...string) (*Programs, error) {
	dir, err := os.MkdirTemp("", "gorun-bench-")
	if err != nil {
		return nil, err
	}
	p := &Programs{dir: dir, Hydra: Lookup("mpiexec.hydra", "mpiexec.mpich"), OpenMPI: Lookup("mpirun.openmpi", "mpiexec.openmpi"), True: Lookup("true")}
	if err := p.fill(gorun, flags); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Programs) fill(gorun string, flags []string) error {
	var err error
	if p.Gorun, err = filepath.Abs(gorun); err != nil {
		return err
	}
	if _, err = os.Stat(p.Gorun); err != nil {
		return fmt.Errorf("%w: `make build` makes it", err)
	}
	for name, path := range map[string]*string{"forkloop": &p.Forkloop, "stand": &p.Stand, "flood": &p.Flood, "storeload": &p.Storeload} {
		*path = filepath.Join(p.dir, name)
		source := filepath.Join("internal", "bench", "csrc", name+".c")
		if said, err := exec.Command("gcc", append(slices.Clone(flags), "-O2", "-Wall", "-Wextra", "-Werror", "-o", *path, source)...).CombinedOutput(); err != nil {
			return fmt.Errorf("compile %s: %w\n%s", source, err, said)
		}
	}
	if bin, err := filepath.Abs(".venv/bin"); err == nil {
		p.Torchrun, p.Python = Lookup(filepath.Join(bin, "torchrun")), Lookup(filepath.Join(bin, "python"))
	}
	return nil
}

// Close removes what FindPrograms compiled.
func (p *Programs) Close() { _ = os.RemoveAll(p.dir) }

// Missing names the peers that are not on this machine.
func (p *Programs) Missing() []string {
	var missing []string
	for _, peer := range []struct{ path, name string }{
		{p.Hydra, "MPICH's Hydra (Debian: mpich)"},
		{p.OpenMPI, "Open MPI (Debian: openmpi-bin)"},
		{p.Torchrun, "torchrun (.ci/setup)"},
	} {
		if peer.path == "" {
			missing = append(missing, peer.name)
		}
	}
	return missing
}

// Lookup returns the first of the programs that exists, as an absolute path.
func Lookup(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}
