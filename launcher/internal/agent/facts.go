package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gorun/launcher/internal/ncclhost"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/program"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/placement"
	"gorun/placement/gpufacts"
	nvml "gorun/placement/nvml/worker"
	"gorun/placement/sysfs"
)

// hello handles a Hello frame: it collects the requested facts and finds the programs.
func (a *Agent) hello(h wire.Hello) error {
	if h.Version != wire.Version { // the head reports it
		return a.link.Send(&wire.Facts{Version: wire.Version})
	}
	a.lease.begin(h.Lease, a.link)
	if a.cfg.Joined == nil {
		a.copied = h.Copied
	} else {
		a.cfg.Joined.replacePrograms(&h)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	facts := wire.Facts{
		Version: wire.Version,
		Facts:   spec.Facts{Host: host, Machine: machine(h), TempDir: a.cfg.TempDir},
	}
	facts.Notes = a.completeGPUs(h, &facts.Machine)
	if err := a.checkLimits(h.Ranks, h.Sockets); h.Ranks > 0 && err != nil {
		facts.Limit = err.Error()
	}
	facts.Environ, facts.Boot = a.cfg.Environ, bootID()
	if joined := a.cfg.Joined; joined != nil {
		facts.Environ, facts.Ranks = joined.reportedEnviron(a.cfg.Environ), joined.Ranks
		facts.Task, facts.LogDir, facts.Role = joined.Task, joined.LogDir, joined.Role
	}
	if err := a.chdir(h); err != nil {
		facts.DirError = err.Error()
		return a.link.Send(&facts)
	}
	// The first occurrence counts: shells started by ssh often have a short PATH, and ranks get the head's.
	environ := slices.Concat(h.Environ, a.cfg.Environ)
	for _, p := range h.Programs {
		found := a.resolve(p, environ, h.ScanStore)
		if len(h.Programs) > 1 && found.Path != "" { // programs of two MPI families cannot share a world
			found.MPI = program.MPIFamily(pathFrom(p.Dir, found.Path))
		}
		facts.Programs = append(facts.Programs, found)
	}
	if h.NCCL {
		facts.NCCL = ncclhost.Read(ncclhost.Ranks{
			Getenv:       lookupIn(environ),
			PythonPrefix: pythonPrefix(facts.Programs),
			Dir:          func() string { return firstWorkingDir(h.Programs) },
		})
		if facts.NCCL.GPUs {
			facts.RDMA = sysfs.RDMA()
		}
	}
	if h.Device != "" {
		go a.sendCounted(&h, &facts)
		return nil
	}
	return a.link.Send(&facts)
}

// firstWorkingDir returns the directory of the first program's ranks; "": unknown.
func firstWorkingDir(programs []spec.Command) string {
	dir := ""
	if len(programs) > 0 {
		dir = programs[0].Dir
	}
	dir, _ = filepath.Abs(dir) // the working directory may be gone
	return dir
}

// pythonPrefix returns the prefix (sys.prefix) of the Python that runs the first Python program; "": none.
func pythonPrefix(programs []spec.Program) string {
	for _, p := range programs {
		if strings.HasPrefix(p.Kind, "python") && filepath.IsAbs(p.Path) {
			return filepath.Dir(filepath.Dir(p.Path))
		}
	}
	return ""
}

// bootID returns the kernel's random boot id; "": unknown.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// chdir changes to the launcher's working directory, in which programs are searched and ranks start.
func (a *Agent) chdir(h wire.Hello) error {
	if h.Dir == "" {
		return nil
	}
	err := os.Chdir(h.Dir)
	if err == nil || h.DirOptional {
		return nil
	}
	var why *os.PathError
	if errors.As(err, &why) {
		err = why.Err
	}
	return fmt.Errorf("the working directory %s: %w", h.Dir, err)
}

// machine reads the requested parts of this node's Machine. It skips the topology if there are more ranks than
// CPUs, which are not bound by default.
func machine(h wire.Hello) placement.Machine {
	needs := sysfs.Needs{CPUs: h.CPUs, GPUs: h.GPUs, Driverless: h.Driverless, Topology: h.Topology, NICs: h.NICs}
	if allowed, err := sysfs.Affinity(); h.Topology && !h.Places && err == nil && h.Ranks > allowed.Len() {
		needs.Topology, needs.CPUs = false, true
	}
	return sysfs.Read(needs)
}

// completeGPUs adds facts about NVIDIA's GPUs that the kernel's files do not have, and returns notes.
func (a *Agent) completeGPUs(h wire.Hello, m *placement.Machine) (notes []string) {
	query := gpufacts.Query{Users: h.GPUUsers, Names: h.GPUNames, Links: h.GPULinks}
	if query == (gpufacts.Query{}) || !query.NeedsLibrary(*m, sysfs.NVIDIASigns()) {
		return nil
	}
	program := a.cfg.NVML
	program.Slow = func() { _ = a.link.Send(&wire.Notice{Text: nvml.SlowText}) } // the head may be gone
	facts, err := program.Facts(len(m.GPUs))
	return query.Complete(m, facts, err)
}

// checkLimits checks limits once for a number of ranks, in hello if that is known by then.
func (a *Agent) checkLimits(ranks int, sockets bool) error {
	if a.checked == ranks {
		return nil
	}
	a.checked = ranks
	return process.CheckLimits(ranks, 0, process.DescriptorsPerRank(sockets))
}

// resolve finds a program and remembers it for build.
func (a *Agent) resolve(p spec.Command, environ []string, scan bool) spec.Program {
	found, r := find(p, environ)
	if scan && r.Source != "" {
		if place, ok := program.AssignsMasterPort(r.Source); ok {
			found.AssignsPort = fmt.Sprintf("%s:%d", r.Source, place.Line)
			found.Port, found.Regroups = place.Port, place.Regroups
		}
	}
	a.programs = append(a.programs, r)
	return found
}

func find(p spec.Command, environ []string) (spec.Program, program.Resolved) {
	r, err := program.Resolve(p, lookupIn(environ))
	if err != nil {
		return unresolved(err), r
	}
	return spec.Program{
		Path: r.Path, Argv: r.Argv, ScriptArg: r.ScriptArg, Kind: string(r.Kind), Build: r.Build != nil,
	}, r
}

// pathFrom resolves a path relative to dir; "": this process's working directory.
func pathFrom(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// lookup returns the value of a variable; "": not set.
func lookup(environ []string, name string) string {
	for _, assignment := range environ {
		if n, value, _ := strings.Cut(assignment, "="); n == name {
			return value
		}
	}
	return ""
}

// lookupIn returns a function that returns the values of variables.
func lookupIn(environ []string) func(name string) string {
	return func(name string) string { return lookup(environ, name) }
}

func unresolved(err error) spec.Program {
	var e *program.Error
	if !errors.As(err, &e) {
		return spec.Program{Code: 127, Error: err.Error()}
	}
	return spec.Program{Code: e.Code, Error: e.Error(), Hint: e.Hint}
}
