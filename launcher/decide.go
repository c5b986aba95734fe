package launcher

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"

	"gorun/env"
	"gorun/env/nccl"
	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// decide asks the nodes for their facts, has node 0 open the store, and makes the plan.
func (s *session) decide() error {
	if err := s.sendHello(); err != nil {
		return err
	}
	opened, err := s.openStore()
	if err != nil {
		return err
	}
	if s.ids, err = newIDs(); err != nil {
		return failure(err.Error())
	}
	s.key = make([]byte, keySize)
	_, _ = rand.Read(s.key) // never fails
	if err := s.makePlan(opened); err != nil {
		return err
	}
	s.reportPlan()
	if l := s.plan.Logs; l != nil && l.Files() && !l.Named() && s.spec.Output.LogDir == "" {
		s.settings.notify("log files are in " + l.Dir) // nobody could guess where
	}
	return nil
}

// varConfFile names NCCL's file of settings, which is read before there is a plan.
const varConfFile = "NCCL_CONF_FILE"

// keySize is that of the job's key in bytes, as package comm wants it.
const keySize = 32

// newIDs makes names that nobody can guess: for the job's marker, for its ranks,
// for its private files and for its MPI_COMM_WORLDs.
func newIDs() (ids job.IDs, err error) {
	for _, id := range []*string{&ids.Job, &ids.World, &ids.Run} {
		if *id, err = process.NewJobID(); err != nil {
			return ids, err
		}
	}
	ids.Dir = ids.Run[:16]
	return ids, nil
}

// planOnly makes the plan with placeholders for what only a start can tell.
func (s *session) planOnly() (*job.Plan, error) {
	s.dryRun = true
	if err := s.sendHello(); err != nil {
		return nil, err
	}
	if err := s.receiveFacts(); err != nil {
		return nil, err
	}
	s.adoptScriptPort()
	opened := job.Opened{Addr: s.storeAddr(), Port: s.spec.Store.Port, Store: job.AtStart}
	s.ids = job.IDs{Job: job.AtStart, Run: job.AtStart, Dir: job.AtStart, World: job.AtStart}
	if err := s.makePlan(opened); err != nil {
		return nil, err
	}
	s.reportPlan()
	return s.plan, nil
}

func (s *session) makePlan(opened job.Opened) (err error) {
	if s.plan, err = job.NewPlan(&s.spec, factsOf(s.nodes), s.ids, opened); err != nil {
		var wrong *job.FactsError
		if errors.As(err, &wrong) {
			return failure(printable.Text(wrong.Error()))
		}
		return usageErrors(err)
	}
	s.active = nil // somebody may still look at those of the last attempt
	for number, p := range s.plan.Nodes {
		n := s.nodes[p.Fact]
		if n.number != number {
			n.number = number
		}
		s.active = append(s.active, n)
	}
	return nil
}

// sayPlan tells what was decided for the user, as far as he wants to hear of it.
func (s *session) reportPlan() {
	if s.spec.PerNode.Kind == job.CountUnset && s.spec.Apps[0].NumRanks == 0 {
		s.settings.note(s.plan.Why)
	} else {
		s.settings.detail(s.plan.Why)
	}
	for _, app := range s.plan.Apps {
		s.settings.detail(fmt.Sprintf("program: %s (%s)", app.Path, app.Kind))
	}
	s.settings.detail("store: " + s.plan.Store.Why)
	for _, note := range s.plan.Notes {
		s.settings.note(note)
	}
	for _, warning := range s.plan.Warnings {
		s.settings.notify(warning)
	}
	if s.dryRun {
		for _, remark := range s.ncclExportNotes() {
			s.settings.notify(remark)
		}
	}
	s.warnUnreadNames()
	s.reportBindings()
	if s.settings.planned != nil {
		s.settings.planned(s.plan)
	}
}

// factsOf are what nodes said of themselves.
func factsOf(nodes []*node) []job.Facts {
	list := make([]job.Facts, len(nodes))
	for i, n := range nodes {
		list[i] = n.facts
	}
	return list
}

// sendHello has the nodes measure themselves and find the programs.
func (s *session) sendHello() error {
	if err := s.applyMasterVariables(); err != nil {
		return err
	}
	hello := s.hello()
	return s.forEach(func(n *node) error { return n.send(s.helloFor(n, hello)) })
}

// takeFacts hears what the nodes say of themselves.
func (s *session) receiveFacts() error {
	err := s.forEach(s.receiveNodeFacts)
	s.spec.CountSlots(factsOf(s.nodes))
	if err != nil || len(s.nodes) == 1 {
		return err
	}
	s.warnDuplicates()
	first, err := job.HostOfRank0(&s.spec, factsOf(s.nodes))
	if err != nil {
		return usageErrors(err)
	}
	s.rank0Node = first
	return s.chooseMaster()
}

// tellTwins remarks on one machine that was named twice: its CPUs and GPUs would be given
// out twice. Nodes that were started one by one may be meant to be on one, and what a
// resource manager calls nodes is its own business.
func (s *session) warnDuplicates() {
	if s.engine != nil {
		return
	}
	first := map[string]*node{}
	for _, n := range s.nodes {
		boot := n.facts.Boot
		if twin := first[boot]; twin != nil && boot != "" && s.spec.Join == nil {
			s.settings.notify(fmt.Sprintf("%s and %s are one machine: its CPUs and GPUs are given out twice", twin.name, n.name))
			continue
		}
		first[boot] = n
	}
}

func (s *session) receiveNodeFacts(n *node) error {
	var facts wire.Facts
	if err := n.receive(&facts); err != nil {
		return err
	}
	s.shared.Intern(&facts)
	n.sampleClock()
	switch {
	case facts.Version != wire.Version:
		return versionError(n, facts.Version)
	case facts.Limit != "":
		return failure(printable.Text(facts.Limit))
	case facts.DeviceError != "":
		return &Error{
			Code: job.ExitUsage,
			Text: printable.Text(fmt.Sprintf("%s: count devices on %s: %s", s.spec.PerNode.From, n.name, facts.DeviceError)),
			Hint: "give a number, auto, gpu or cpu; GORUN_PYTHON=PATH names the Python that has PyTorch",
		}
	case facts.DirError != "":
		return &Error{
			Code: job.ExitLauncher, Text: printable.Text(facts.DirError),
			Hint: "--chdir DIR names a directory that each host has",
		}
	}
	n.facts = job.Facts{Facts: facts.Facts, Remote: !n.host.Here, Joined: n.joined}
	f := &n.facts
	f.Host, f.LogDir, f.Notes = n.hostName(f.Host), printable.Text(f.LogDir), printables(f.Notes)
	f.NCCL = printableHost(f.NCCL)
	if f.Boot != "" {
		f.Boot += " " + facts.Host // containers of one machine have names of their own
	}
	if s.spec.Join != nil {
		s.addLocalSettings(n)
	} else {
		s.dropNodeSettings(f)
	}
	// Where nodes join, or an address was named, the store may not be where the script looks.
	for i := range f.Programs {
		f.Programs[i].Regroups = f.Programs[i].Regroups && s.listener == nil && s.spec.Store.Addr == ""
	}
	return n.checkPrograms(s.spec.Apps)
}

// dropOwnWishes leaves of a node without a command line of its own what no command line says.
func (s *session) dropNodeSettings(f *job.Facts) {
	f.Task, f.Role = nil, ""
	if s.spec.PerNode.Kind != job.CountDevice {
		f.Ranks = 0
	}
	if s.spec.StartedByEngine() {
		f.Environ = plan.OwnInEngine(f.Environ)
	} else {
		f.Environ = plan.OwnOfHost(f.Environ)
	}
}

// takeOwnWishes takes what a node's own command line says; for this one, ours.
func (s *session) addLocalSettings(n *node) {
	if n.joined {
		return
	}
	n.facts.Task = s.spec.Join.Task
	if s.spec.PerNode.Kind != job.CountDevice {
		n.facts.Ranks = s.localRequest().Ranks
	}
	if j := s.spec.Join; j.Task != nil && j.NodeID != "" {
		n.facts.Host = printable.Text(j.NodeID)
	}
}

// printableHost is what a node said of its host, fit for messages. Files of settings are
// not shown, but for what is wrong in them.
func printableHost(h nccl.Host) nccl.Host {
	h.Library, h.Container, h.Cloud = printable.Text(h.Library), printable.Text(h.Container), printable.Text(h.Cloud)
	h.NoVerbsWhy = printable.Text(h.NoVerbsWhy)
	return h
}

// otherVersion is an agent that does not understand this gorun.
func versionError(n *node, version int) error {
	return &Error{
		Code: job.ExitLauncher, Text: fmt.Sprintf("the agent on %s speaks version %d of gorun's frames, this gorun %d",
			n.name, version, wire.Version),
		Hint: "use the same gorun on all hosts; without --agent it is copied there",
	}
}

// wishFromEnvironment takes up MASTER_ADDR and MASTER_PORT where the user, and
// no outer launcher, set them, and no option says otherwise.
func (s *session) applyMasterVariables() error {
	addr, port, origin, err := s.spec.RequestedStore()
	if err != nil {
		return &Error{Code: job.ExitUsage, Text: err.Error()}
	}
	store := &s.spec.Store
	if s.spec.Join != nil { // it has been heard: nodes and ranks meet there
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
	h.Environ = append(h.Environ, s.ncclExports()...) // before the environment's: the first counts
	h.Environ = append(h.Environ,
		s.variables("PATH", "HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD", varConfFile)...)
	for _, app := range s.spec.Apps {
		h.Programs = append(h.Programs, wire.Program{
			Name: app.Program, Args: app.Args, Start: app.Start, Interpreter: app.Interpreter, Dir: s.dirOf(&app),
			Path:      s.searchPath(&app),
			ScanStore: s.spec.Store.Mode == job.StoreAuto,
		})
	}
	return h
}

// dirOf is where a program's ranks begin.
func (s *session) dirOf(app *job.App) string { return cmp.Or(app.Dir, s.spec.Dir) }

// variables are those of some names that are set, NAME=VALUE.
func (s *session) variables(names ...string) (environ []string) {
	for _, name := range names {
		if v, ok := lookup(s.spec.Environ, name); ok {
			environ = append(environ, name+"="+v)
		}
	}
	return environ
}

// exportedToNCCL is what the user gives ranks alone of the variables by which NCCL and its
// file of settings are found, NAME=VALUE; of several programs the first one's counts, as a
// host is asked once.
func (s *session) ncclExports() (environ []string) {
	if len(s.spec.Apps) == 0 {
		return s.ncclVariables(nil)
	}
	return s.ncclVariables(s.spec.Apps[0].Exports)
}

// unheardOfNCCL says which programs find another file of settings, or another library, than the
// first one, whose file and library a plan goes by.
func (s *session) ncclExportNotes() (remarks []string) {
	heard := s.ncclExports()
	for i, app := range s.spec.Apps {
		var other []string
		own := s.ncclVariables(app.Exports)
		for _, entry := range own {
			if !slices.Contains(heard, entry) {
				other = append(other, "-x "+printable.Text(entry))
			}
		}
		for _, entry := range heard {
			if name, _, _ := strings.Cut(entry, "="); !slices.ContainsFunc(own, func(o string) bool {
				return strings.HasPrefix(o, name+"=")
			}) {
				other = append(other, "no -x "+name)
			}
		}
		if other != nil {
			remarks = append(remarks, fmt.Sprintf("program %d has %s: NCCL's file of settings and its library are looked for "+
				"as program 1 finds them, so that this one's own are not shown", i+1, strings.Join(other, ", ")))
		}
	}
	return remarks
}

// findsNCCL are those variables for a program with exports of its own.
func (s *session) ncclVariables(own []job.Export) (environ []string) {
	exports := slices.Concat(s.spec.Exports, own)
	for _, name := range []string{varConfFile, "LD_LIBRARY_PATH", "LD_PRELOAD"} {
		for _, e := range slices.Backward(exports) {
			if e.Name != name {
				continue
			}
			switch {
			case e.Remove:
				environ = append(environ, name+"=")
			case e.HasValue:
				environ = append(environ, name+"="+e.Value)
			}
			break
		}
	}
	return environ
}

// searchPath is where a program is looked for before the PATH of this environment: where the
// user said, and in the PATH that he gives its ranks.
func (s *session) searchPath(app *job.App) string {
	dirs := app.Path
	for _, e := range slices.Backward(slices.Concat(s.spec.Exports, app.Exports)) {
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

// helloFor is what one node is asked.
func (s *session) helloFor(n *node, h wire.Hello) *wire.Hello {
	if n.host.Here || n.joined {
		h.Lease = s.leaseOf(n)
		return &h
	}
	h.Lease, h.Dir = s.spec.Lease(), s.workingDir()
	h.DirOptional = !slices.ContainsFunc(h.Programs, func(p wire.Program) bool { return !path.IsAbs(p.Dir) })
	if n.copied != nil {
		h.Copied = wire.Copied{Dir: n.copied.Path, PID: n.copied.PID}
		if len(s.spec.Reach.Copy) > 0 {
			h.Dir, h.DirOptional = n.copied.Path, false
		}
		h.Programs = slices.Clone(h.Programs)
		for i, p := range h.Programs {
			// a module is looked for where ranks begin
			if file, ok := n.copied.PathOf(p.Name); ok && p.Start != job.StartModule {
				h.Programs[i].Name = file
			}
		}
	}
	h.Environ = slices.DeleteFunc(slices.Clone(h.Environ), func(v string) bool { return strings.HasPrefix(v, "HOME=") })
	return &h
}

// leaseOf is how long a node's agent goes on without the head; one in this process ends
// with it.
func (s *session) leaseOf(n *node) time.Duration {
	if n.served != nil {
		return 0
	}
	return s.spec.Lease()
}

// workingDir is the launcher's own, by the name that its shell has for it.
func (s *session) workingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return "/"
	}
	return dir
}

// checkPrograms reports every program that cannot be started, before any rank is. One that
// has no ranks there need not be there.
func (n *node) checkPrograms(apps []job.App) error {
	var all *multierror.Error
	if len(n.facts.Programs) != len(apps) {
		text := fmt.Sprintf("the agent tells of %d programs, not of %d", len(n.facts.Programs), len(apps))
		return failure(text)
	}
	for i := range n.facts.Programs {
		p := &n.facts.Programs[i]
		if p.ScriptArg < 0 || p.ScriptArg > len(p.Argv) || !isPort(p.Port) || p.Error == "" && len(p.Argv) == 0 {
			text := "the agent tells of a program that cannot be started: " + printable.Text(p.Path)
			return failure(text)
		}
		if p.Error != "" && apps[i].RunsOn(&n.facts) {
			all = multierror.Append(all, &Error{Code: p.Code, Text: printable.Text(p.Error), Hint: printable.Text(p.Hint)})
		}
		p.MPI, p.Regroups = printable.Text(p.MPI), p.Regroups && p.Port != 0
	}
	return all.ErrorOrNil()
}

// findExecutable finds what the guard becomes when this process is killed.
func (s *session) findExecutable() error {
	if s.settings.executable != "" || mainCalled {
		return nil
	}
	path, err := exec.LookPath("gorun")
	if err != nil {
		return &Error{
			Code: job.ExitLauncher, Text: "no program for the job's guard process",
			Hint: "call launcher.Main() first thing in main, pass launcher.WithExecutable, or put gorun into PATH",
		}
	}
	s.settings.executable = path
	return nil
}

func lookup(environ []string, name string) (string, bool) {
	for i := len(environ) - 1; i >= 0; i-- {
		if n, v, ok := strings.Cut(environ[i], "="); ok && n == name {
			return v, true
		}
	}
	return "", false
}
