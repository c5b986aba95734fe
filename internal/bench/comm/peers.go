package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
)

// Names of those that are measured. allocated is comm on memory of comm.Allocate, engine is comm's C code called from C.
const (
	ours      = "comm"
	allocated = "allocated"
	openMPI   = "openmpi"
	mpich     = "mpich"
	gloo      = "gloo"
	engine    = "engine"
	raw       = "raw" // bare TCP, between hosts only
)

var (
	allPeers = []string{openMPI, mpich, gloo, engine}
	rivals   = []string{openMPI, mpich, gloo} // whom comm is compared with
)

// crew is the programs that are measured. A path is empty where this machine lacks one, or nobody asked for it.
type crew struct {
	dir                                          string
	gorun, self, mpirun, mpiexec, python, script string
	programs                                     map[string]string // compiled here: openmpi, mpich, engine
	notes                                        []string
	commands                                     map[string][]program // what was run, by peer and where
}

// findPeers compiles what has to be, in the repository's root and into dir; peers that cannot be had leave a note.
func findPeers(dir, gorun string, wanted []string) (*crew, error) {
	c := &crew{dir: dir, programs: map[string]string{}, commands: map[string][]program{}}
	var err error
	if c.gorun, err = filepath.Abs(gorun); err != nil {
		return nil, err
	}
	if _, err = os.Stat(c.gorun); err != nil {
		return nil, fmt.Errorf("%w: `make build` makes it", err)
	}
	if c.self, err = os.Executable(); err != nil {
		return nil, err
	}
	finders := map[string]func() error{openMPI: c.findOpenMPI, mpich: c.findMPICH, gloo: c.findGloo, engine: c.buildEngine, raw: c.buildRaw}
	for _, name := range append([]string{raw}, wanted...) {
		if err := finders[name](); err != nil {
			c.notes = append(c.notes, fmt.Sprintf("left out: %s: %v", name, err))
		}
	}
	return c, nil
}

var sources = filepath.Join("internal", "bench", "csrc")

// compile makes a program called name and keeps it if that works.
func (c *crew) compile(name string, argv ...string) error {
	path := filepath.Join(c.dir, name)
	argv = append(argv, "-Wall", "-Wextra", "-Werror", "-o", path)
	if err := step(argv...); err != nil {
		return err
	}
	c.programs[name] = path
	return nil
}

func (c *crew) findOpenMPI() (err error) {
	if c.mpirun, err = exec.LookPath("mpirun.openmpi"); err != nil {
		return err
	}
	source := filepath.Join(sources, "commmpi.c")
	headers, _ := filepath.Glob(filepath.Join("build", "openmpi", "usr", "lib", "*", "openmpi", "include"))
	if len(headers) > 0 {
		return c.compile(openMPI, "gcc", "-O2", "-I"+headers[0], source, "-l:libmpi.so.40")
	}
	return c.compile(openMPI, "mpicc.openmpi", "-O2", source)
}

func (c *crew) findMPICH() (err error) {
	if c.mpiexec, err = exec.LookPath("mpiexec.mpich"); err != nil {
		return err
	}
	return c.compile(mpich, "mpicc.mpich", "-O2", filepath.Join(sources, "commmpi.c"))
}

func (c *crew) buildRaw() error {
	return c.compile(raw, "gcc", "-O2", "-std=gnu11", filepath.Join(sources, "commraw.c"))
}

func (c *crew) findGloo() (err error) {
	if c.script, err = filepath.Abs(filepath.Join("internal", "bench", "comm", "gloo.py")); err != nil {
		return err
	}
	python, err := filepath.Abs(filepath.Join(".venv", "bin", "python"))
	if err == nil {
		_, err = os.Stat(python)
	}
	if err != nil {
		return fmt.Errorf("%w: .ci/setup makes it", err)
	}
	c.python = python
	return nil
}

// buildEngine keeps the program, whose kernels take gcc a while, as long as its sources stay as they are.
func (c *crew) buildEngine() error {
	files, err := filepath.Glob(filepath.Join("comm", "internal", "cpu", "*.[ch]"))
	if err != nil {
		return err
	}
	kept := filepath.Join("build", "bench", "commengine")
	if newer(kept, append(files, filepath.Join(sources, "commengine.c"), filepath.Join(sources, "commloop.h"))) {
		c.programs[engine], err = filepath.Abs(kept)
		return err
	}
	argv := []string{"gcc", "-O3", "-std=gnu11", filepath.Join(sources, "commengine.c")}
	for _, file := range files {
		if filepath.Ext(file) == ".c" {
			argv = append(argv, file)
		}
	}
	if err := c.compile(engine, argv...); err != nil {
		return err
	}
	body, err := os.ReadFile(c.programs[engine])
	if err == nil {
		err = os.MkdirAll(filepath.Dir(kept), 0o755)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(kept, body, 0o755)
}

// newer reports whether a file is there and none of the sources was changed after it.
func newer(path string, sources []string) bool {
	made, err := os.Stat(path)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(sources, func(source string) bool {
		info, err := os.Stat(source)
		return err != nil || info.ModTime().After(made.ModTime())
	})
}

// argv is the command that starts a peer's ranks with buffers of so many bytes; nil where the machine lacks it. The settings are each one's best
// of those that its manual names for ranks on one host: bound to a CPU each where there are enough CPUs.
func (c *crew) argv(name string, ranks, bytes int) []string {
	n, size := strconv.Itoa(ranks), strconv.Itoa(bytes)
	crowded := ranks > runtime.NumCPU()
	switch {
	case name == ours:
		return []string{c.gorun, "-n", n, c.self, "-rank", size}
	case name == gloo && c.python != "":
		return []string{c.gorun, "-n", n, c.python, c.script, size}
	case c.programs[name] == "":
		return nil
	case name == engine:
		return []string{c.programs[engine], n, size}
	case name == openMPI && crowded:
		return []string{c.mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-n", n, c.programs[openMPI], size}
	case name == openMPI:
		return []string{c.mpirun, "--allow-run-as-root", "--bind-to", "core", "-n", n, c.programs[openMPI], size}
	case name == mpich && crowded:
		return []string{c.mpiexec, "-n", n, c.programs[mpich], size}
	case name == mpich:
		return []string{c.mpiexec, "-bind-to", "core", "-n", n, c.programs[mpich], size}
	}
	return nil
}

// single is the one program that argv names, none where it names nothing.
func single(argv []string) []program {
	if argv == nil {
		return nil
	}
	return []program{{Argv: argv}}
}

// start begins the sessions of all peers for which programs has any; who does not start leaves a note, comm must.
func (c *crew) start(s scene, programs func(name string) []program) (scene, error) {
	s.sessions = map[string]*session{}
	for _, name := range append([]string{ours, raw}, allPeers...) {
		wanted := programs(name)
		if wanted == nil {
			continue
		}
		c.commands[fmt.Sprintf("%s, %s", name, s)] = wanted
		started, err := startSession(c.dir, name, s.ranks, wanted...)
		if err != nil && name == ours {
			closeAll(s.sessions)
			return s, err
		}
		if err != nil {
			c.notes = append(c.notes, fmt.Sprintf("left out with %s: %v", s, err))
			continue
		}
		s.sessions[name] = started
	}
	return s, nil
}

func closeAll(sessions map[string]*session) {
	for _, s := range sessions {
		s.close()
	}
}
