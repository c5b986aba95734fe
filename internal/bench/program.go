package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// programs are the measured programs. A path is "" if the program is not installed.
type programs struct {
	gorun, self, true string
	hydra, openMPI    string
	torchrun, python  string // of .venv
	forkloop, stand   string // compiled, see csrc
	flood, storeload  string
	dir               string // for compiled programs; hosts in namespaces see it
}

// sanitizerOptions are compiler options for tests.
var sanitizerOptions = []string{"-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}

// findPrograms compiles our C programs into a directory and looks for the peers. It runs in the repository's root.
func findPrograms(dir, gorun string, options ...string) (*programs, error) {
	p := &programs{
		hydra: look("mpiexec.hydra", "mpiexec.mpich"), openMPI: look("mpirun.openmpi", "mpiexec.openmpi"), true: look("true"),
		torchrun: look(".venv/bin/torchrun"), python: look(".venv/bin/python"), gorun: look(gorun), dir: dir,
	}
	if p.gorun == "" {
		return nil, fmt.Errorf("no program %s: `make build` makes it", gorun)
	}
	var err error
	if p.self, err = os.Executable(); err != nil {
		return nil, err
	}
	for name, path := range map[string]*string{
		"forkloop": &p.forkloop, "stand": &p.stand, "flood": &p.flood, "storeload": &p.storeload,
	} {
		if *path, err = p.compile(name, append([]string{"gcc", "-O2"}, options...)...); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// compile compiles csrc/NAME.c.
func (p *programs) compile(name string, compiler ...string) (path string, err error) {
	path = filepath.Join(p.dir, name+"-"+filepath.Base(compiler[0]))
	command := exec.Command(compiler[0], slices.Concat(compiler[1:], []string{
		"-Wall", "-Wextra", "-Werror", "-o", path, filepath.Join("internal/bench/csrc", name+".c"),
	})...)
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w: %.300s", command, err, output)
	}
	return path, nil
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
