package launcher

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"

	"github.com/hashicorp/go-multierror"

	"gorun/env"
	"gorun/internal/printable"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// decide asks the node for its facts, has it open the store, and makes the plan.
func (s *session) decide() error {
	if err := s.sendHello(); err != nil {
		return err
	}
	opened, err := s.openStore()
	if err != nil {
		return err
	}
	if s.ids, err = newIDs(); err != nil {
		return &Error{Code: job.ExitLauncher, Text: err.Error()}
	}
	if err := s.makePlan(opened); err != nil {
		return err
	}
	s.sayPlan()
	if l := s.plan.Logs; l != nil && l.Files() && s.spec.Output.LogDir == "" {
		s.settings.tell("log files are in " + l.Dir) // nobody could guess where
	}
	return nil
}

// newIDs makes names that nobody can guess: for the job's marker, for its ranks,
// and for its private files.
func newIDs() (ids job.IDs, err error) {
	if ids.Job, err = process.NewJobID(); err != nil {
		return ids, err
	}
	ids.Run, err = process.NewJobID()
	ids.Dir = ids.Run[:16]
	return ids, err
}

// planOnly makes the plan with placeholders for what only a start can tell.
func (s *session) planOnly() (*job.Plan, error) {
	s.nothingStarts = true
	if err := s.sendHello(); err != nil {
		return nil, err
	}
	if err := s.takeFacts(); err != nil {
		return nil, err
	}
	s.adoptPort()
	opened := job.Opened{Addr: s.storeAddr(), Port: s.spec.Store.Port, Store: job.AtStart}
	s.ids = job.IDs{Job: job.AtStart, Run: job.AtStart, Dir: job.AtStart}
	if err := s.makePlan(opened); err != nil {
		return nil, err
	}
	s.sayPlan()
	return s.plan, nil
}

func (s *session) makePlan(opened job.Opened) (err error) {
	if s.plan, err = job.NewPlan(&s.spec, []job.Facts{s.facts}, s.ids, opened); err != nil {
		return usageErrors(err)
	}
	return nil
}

// sayPlan tells what was decided for the user, as far as he wants to hear of it.
func (s *session) sayPlan() {
	if s.spec.PerNode.Kind == job.CountUnset && s.spec.Apps[0].NumRanks == 0 {
		s.settings.tell(s.plan.Why)
	} else {
		s.settings.detail(s.plan.Why)
	}
	for _, app := range s.plan.Apps {
		s.settings.detail(fmt.Sprintf("program: %s (%s)", app.Path, app.Kind))
	}
	s.settings.detail("store: " + s.plan.Store.Why)
	for _, note := range s.plan.Notes {
		s.settings.tell(note)
	}
	s.tellBindings()
}

// sendHello has the node measure itself and find the programs.
func (s *session) sendHello() error {
	if err := s.wishFromEnvironment(); err != nil {
		return err
	}
	hello := s.hello()
	if err := s.link.Send(&hello); err != nil {
		return s.agentError(err)
	}
	return nil
}

func (s *session) takeFacts() error {
	var facts wire.Facts
	if err := s.receive(&facts); err != nil {
		return err
	}
	if facts.Limit != "" {
		return &Error{Code: job.ExitLauncher, Text: printable.Text(facts.Limit)}
	}
	s.facts = job.Facts{Host: facts.Host, Machine: facts.Machine, TempDir: facts.TempDir, Notes: printables(facts.Notes)}
	return s.takePrograms(facts.Programs)
}

// wishFromEnvironment takes up MASTER_ADDR and MASTER_PORT where the user, and
// no outer launcher, set them, and no option says otherwise.
func (s *session) wishFromEnvironment() error {
	addr, port, origin, err := s.spec.Wish()
	if err != nil {
		return &Error{Code: job.ExitUsage, Text: err.Error()}
	}
	store := &s.spec.Store
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
	_, ompSet := find(s.spec.Environ, env.VarOMPNumThreads)
	_, goSet := find(s.spec.Environ, env.VarGoMaxProcs)
	h := wire.Hello{
		Version: wire.Version, CPUs: r.NeedsCPUs() || !ompSet || !goSet && s.spec.KnownRanks() != 1, GPUs: r.NeedsGPUs(),
		Topology: r.NeedsTopology() || s.spec.Place.NeedsTopology() || s.spec.Place.Report, Places: r.Places() || s.spec.Place.Report,
		NICs:       r.NeedsNICs() || s.spec.Place.Report || s.nothingStarts,
		Driverless: s.spec.PerNode.Kind == job.CountGPU,
		GPUUsers:   r.GPUs.Free, GPUNames: r.Isolate, GPULinks: s.spec.Place.Report,
	}
	if !s.nothingStarts {
		h.Ranks = s.spec.KnownRanks()
	}
	for _, name := range []string{"PATH", "HOME", "VIRTUAL_ENV", "CONDA_PREFIX"} {
		if v, ok := find(s.spec.Environ, name); ok {
			h.Environ = append(h.Environ, name+"="+v)
		}
	}
	for _, app := range s.spec.Apps {
		dir := app.Dir
		if dir == "" {
			dir = s.spec.Dir
		}
		h.Programs = append(h.Programs, wire.Program{
			Name: app.Program, Args: app.Args, Start: uint8(app.Start), Interpreter: app.Interpreter, Dir: dir,
			ScanStore: s.spec.Store.Mode == job.StoreAuto,
		})
	}
	return h
}

// takePrograms reports every program that cannot be started, before any rank is.
func (s *session) takePrograms(resolved []wire.Resolved) error {
	var all *multierror.Error
	for _, r := range resolved {
		if r.Error != "" {
			all = multierror.Append(all, &Error{Code: r.Code, Text: printable.Text(r.Error), Hint: printable.Text(r.Hint)})
		}
		s.facts.Programs = append(s.facts.Programs, job.Program{
			Path: r.Path, Argv: r.Argv, ScriptArg: r.ScriptArg, Kind: r.Kind, Build: r.Build, AssignsPort: r.PortLine, Port: r.Port,
		})
	}
	return all.ErrorOrNil()
}

// storeAddr is where the store should listen: loopback unless the user named an
// address.
func (s *session) storeAddr() string {
	if s.spec.Store.Addr != "" {
		return s.spec.Store.Addr
	}
	return "127.0.0.1"
}

// openStore hears the facts and has the node bind the store's sockets, without
// waiting for the facts where they can change nothing about it: gorun's own store
// at a free port is wanted in every mode, and stays when it turns out from the
// program's text that rank 0 needs a port as well.
func (s *session) openStore() (opened job.Opened, err error) {
	wish := s.spec.Store
	early := wish.Mode != job.StoreAuto || wish.Port == 0
	if early {
		if err := s.sendOpen(wish.Mode == job.StoreRank0); err != nil {
			return opened, err
		}
	}
	if err := s.takeFacts(); err != nil {
		return opened, err
	}
	mode, _ := s.spec.ChooseStore(s.facts)
	s.adoptPort()
	if early {
		opened, err = s.takeOpened()
	}
	if rank0 := mode == job.StoreRank0; err == nil && (!early || rank0 && wish.Mode != job.StoreRank0) {
		if err := s.sendOpen(rank0); err != nil {
			return opened, err
		}
		return s.takeOpened()
	}
	return opened, err
}

// adoptPort makes the port that a script assigns itself the one that is kept for
// its rank 0, so that somebody who has it is found before the ranks start.
func (s *session) adoptPort() {
	store := &s.spec.Store
	if store.Mode != job.StoreAuto || store.Port != 0 {
		return
	}
	for _, p := range s.facts.Programs {
		if p.Port != 0 {
			store.Port, store.From, s.scriptsPort = p.Port, p.AssignsPort, true
			return
		}
	}
}

func (s *session) sendOpen(rank0 bool) error {
	wish := wire.Open{Rank0: rank0, Addr: s.storeAddr(), Port: s.spec.Store.Port, Allow: s.spec.Store.Allow}
	if err := s.link.Send(&wish); err != nil {
		return s.agentError(err)
	}
	return nil
}

// takeOpened hears where the store is.
func (s *session) takeOpened() (job.Opened, error) {
	var opened wire.Opened
	if err := s.receive(&opened); err != nil {
		return job.Opened{}, err
	}
	if opened.Error != "" {
		text := "open the store"
		if s.spec.Store.From != "" {
			text += " as " + s.spec.Store.From + " says"
		}
		if s.scriptsPort {
			opened.Hint = `os.environ.setdefault("MASTER_PORT", ...) in the script leaves the port to gorun; --store=rank0 starts it all the same`
		}
		return job.Opened{}, &Error{Code: job.ExitLauncher, Text: text + ": " + printable.Text(opened.Error), Hint: opened.Hint}
	}
	if store, err := netip.ParseAddrPort(opened.Store); err == nil && store.Addr().IsLoopback() && len(s.spec.Store.Allow) > 0 {
		s.settings.tell("--allow-from changes nothing: the store listens at " + opened.Store + ", where no other host comes; name an address of this host by --master-addr")
	}
	return job.Opened{Addr: opened.Addr, Port: opened.Port, Store: opened.Store}, nil
}

// receive waits for an answer; notices may come before it.
func (s *session) receive(answer wire.Message) error {
	for {
		f, err := s.link.Read()
		switch {
		case err != nil:
			return s.agentError(err)
		case f.Type == answer.Type():
			return f.Decode(answer)
		case f.Type == wire.TypeNotice:
			var n wire.Notice
			if err := f.Decode(&n); err != nil {
				return err
			}
			s.settings.tell(n.Text)
		default:
			return &Error{Code: job.ExitLauncher, Text: fmt.Sprintf("the agent sent a %s frame instead of a %s frame", f.Type, answer.Type())}
		}
	}
}

// agentError says why the agent is gone, if it said so itself.
func (s *session) agentError(err error) error {
	_ = s.link.Close()
	if served := <-s.served; served != nil {
		err = served
	}
	s.served <- nil
	return &Error{Code: job.ExitLauncher, Text: "the agent on this host is gone: " + err.Error()}
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

func find(environ []string, name string) (string, bool) {
	for i := len(environ) - 1; i >= 0; i-- {
		if n, v, ok := strings.Cut(environ[i], "="); ok && n == name {
			return v, true
		}
	}
	return "", false
}
