package launcher

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"gorun/env"
	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// applyMasterVariables uses MASTER_ADDR and MASTER_PORT if the user, rather than an outer launcher,
// set them, and no option overrides them.
func (s *session) applyMasterVariables() error {
	addr, port, origin, err := s.spec.RequestedStore()
	if err != nil {
		return &Error{Code: job.ExitUsage, Text: printable.Error(err)}
	}
	store := &s.spec.Store
	if s.spec.Join != nil { // the nodes meet there already
		return nil
	}
	if store.Addr == "" && addr != "" {
		store.Addr, store.From = addr, origin
	}
	if store.Port == 0 && port != 0 {
		store.Port, store.From = port, origin
	}
	return nil
}

func (s *session) hello() wire.Hello {
	r := s.spec.Request()
	_, ompSet := lookup(s.spec.Environ, env.VarOMPNumThreads)
	_, goSet := lookup(s.spec.Environ, env.VarGoMaxProcs)
	h := wire.Hello{
		Version: wire.Version, CPUs: r.NeedsCPUs() || !ompSet || !goSet && (s.spec.KnownRanks() != 1 || s.spec.IsTask()),
		GPUs:     r.NeedsGPUs(),
		Topology: r.NeedsTopology() || s.spec.Place.Memory.NeedsTopology() || s.spec.Place.Shows(), Places: r.AnyPlaces() ||
			s.spec.Place.Shows(),
		NICs:       r.NeedsNICs() || s.spec.Place.Shows() || s.dryRun,
		Driverless: s.spec.PerNode.Kind == job.CountGPU,
		GPUUsers:   r.GPUs.Free, GPUNames: r.Isolate, GPULinks: s.spec.Place.Shows(),
	}
	if !s.dryRun {
		h.Ranks, h.Sockets = s.spec.KnownRanks(), s.spec.MPI != job.MPINone
	}
	h.NCCL, h.Device = s.spec.Tune != plan.TuneOff, s.spec.PerNode.Device
	h.Environ = append(h.Environ, s.ncclExports()...) // before those of the environment: the first counts
	h.Environ = append(h.Environ,
		s.variables("PATH", "HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD", varConfFile)...)
	for _, app := range s.spec.Apps {
		h.Programs = append(h.Programs, s.commandOf(&app))
	}
	h.ScanStore = s.spec.Store.Mode == job.StoreAuto
	return h
}

// commandOf returns a program as nodes find it.
func (c *call) commandOf(app *job.App) spec.Command {
	return spec.Command{
		Name: app.Program, Args: app.Args, Start: app.Start, Interpreter: app.Interpreter, Dir: c.dirOf(app),
		Path: c.searchPath(app),
	}
}

// helloFor adapts the hello for one node.
func (s *session) helloFor(n *node, h wire.Hello) *wire.Hello {
	if n.host.Here || n.joined {
		h.Lease = s.leaseOf(n)
		return &h
	}
	h.Lease, h.Dir = s.spec.Lease(), workingDir()
	h.DirOptional = !slices.ContainsFunc(h.Programs, func(p spec.Command) bool { return !path.IsAbs(p.Dir) })
	if n.copied != nil {
		h.Copied = wire.Copied{Dir: n.copied.Path, PID: n.copied.PID}
		if len(s.spec.Reach.Copy) > 0 {
			h.Dir, h.DirOptional = n.copied.Path, false
		}
		h.Programs = slices.Clone(h.Programs)
		for i, p := range h.Programs {
			// a module is searched for in the working directory
			if file, ok := n.copied.PathOf(p.Name); ok && p.Start != job.StartModule {
				h.Programs[i].Name = file
			}
		}
	}
	h.Environ = slices.DeleteFunc(slices.Clone(h.Environ), func(v string) bool { return strings.HasPrefix(v, "HOME=") })
	return &h
}

// leaseOf is how long a node's agent survives without heartbeats; one in this process needs none.
func (s *session) leaseOf(n *node) time.Duration {
	if n.served != nil {
		return 0
	}
	return s.spec.Lease()
}

// dirOf returns the working directory of a program's ranks.
func (c *call) dirOf(app *job.App) string { return cmp.Or(app.Dir, c.spec.Dir) }

// searchPath lists directories to search before this process's PATH: the user's, then the PATH
// exported to the ranks.
func (c *call) searchPath(app *job.App) string {
	dirs := app.Path
	for _, e := range slices.Backward(slices.Concat(c.spec.Exports, app.Exports)) {
		if e.Name != "PATH" || !e.HasValue || e.Remove {
			continue
		}
		if dirs != "" {
			dirs += ":"
		}
		return dirs + e.Value
	}
	return dirs
}
