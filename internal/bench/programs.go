package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// programs are what the measurements run; a path is empty where this machine lacks the program.
type programs struct {
	gorun, self, true string
	hydra, openMPI    string
	torchrun, python  string // of .venv
	forkloop, stand   string // compiled, see csrc
	flood, storeload  string
	engine, raw       string
	dir               string // of what is compiled, in build/bench: hosts in namespaces see it, too
}

// sanitized are the compiler's options with which tests compile our C programs.
var sanitized = []string{"-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}

// findPrograms compiles our own C programs, with options of the caller's choice, and looks for the peers. It runs in
// the repository's root.
func findPrograms(gorun string, options ...string) (*programs, error) {
	p := &programs{
		hydra: look("mpiexec.hydra", "mpiexec.mpich"), openMPI: look("mpirun.openmpi", "mpiexec.openmpi"), true: look("true"),
		torchrun: look(".venv/bin/torchrun"), python: look(".venv/bin/python"),
	}
	err := os.MkdirAll("build/bench", 0o755)
	if err == nil {
		p.dir, err = os.MkdirTemp("build/bench", "run-")
	}
	if err == nil {
		p.dir, err = filepath.Abs(p.dir)
	}
	if err == nil {
		err = p.fill(gorun, options)
	}
	if err != nil {
		p.remove()
		return nil, err
	}
	return p, nil
}

func (p *programs) fill(gorun string, options []string) (err error) {
	if p.gorun, err = filepath.Abs(gorun); err != nil {
		return err
	}
	if _, err = os.Stat(p.gorun); err != nil {
		return fmt.Errorf("%w: `make build` makes it", err)
	}
	if p.self, err = os.Executable(); err != nil {
		return err
	}
	for name, path := range map[string]*string{
		"forkloop": &p.forkloop, "stand": &p.stand, "flood": &p.flood, "storeload": &p.storeload,
	} {
		if *path, err = p.compile(name, append([]string{"gcc", "-O2"}, options...)...); err != nil {
			return err
		}
	}
	return nil
}

// compile makes csrc/NAME.c a program.
func (p *programs) compile(name string, compiler ...string) (path string, err error) {
	path = filepath.Join(p.dir, strings.Join([]string{name, filepath.Base(compiler[0])}, "-"))
	argv := append(slices.Clone(compiler), "-Wall", "-Wextra", "-Werror", "-o", path,
		filepath.Join("internal/bench/csrc", name+".c"))
	return path, step(argv...)
}

// step runs a command, whose words are in the error if it fails.
func step(argv ...string) error {
	if said, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %.300s", strings.Join(argv, " "), err, said)
	}
	return nil
}

func (p *programs) remove() { _ = os.RemoveAll(p.dir) }

// missing names the peers that are not on this machine.
func (p *programs) missing() (names []string) {
	for _, one := range []struct{ path, name string }{
		{p.hydra, "MPICH's Hydra (Debian: mpich)"},
		{p.openMPI, "Open MPI (Debian: openmpi-bin)"},
		{p.torchrun, "torchrun (.ci/setup)"},
	} {
		if one.path == "" {
			names = append(names, one.name)
		}
	}
	return names
}

// look returns the first of the programs that exists, as an absolute path.
func look(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			if path, err = filepath.Abs(path); err == nil {
				return path
			}
		}
	}
	return ""
}
