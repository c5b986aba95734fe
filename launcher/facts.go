package launcher

import (
	"fmt"

	"github.com/hashicorp/go-multierror"

	"gorun/env/nccl"
	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// queryNodes fetches all nodes' facts and, if there are several nodes, finds out how they reach each
// other.
func (s *session) queryNodes() error {
	if err := s.applyMasterVariables(); err != nil {
		return err
	}
	hello := s.hello()
	if err := s.forEachNeeded(func(n *node) error { return n.send(s.helloFor(n, hello)) }); err != nil {
		return err
	}
	err := s.forEachNeeded(s.receiveFacts)
	if err == nil {
		err = s.checkNodes()
	}
	s.spec.CountSlots(factsOf(s.nodes))
	if err != nil || len(s.nodes) == 1 && s.listener == nil {
		return err
	}
	s.warnDuplicates()
	return s.withoutLost(s.meet)
}

// introduce sends a node hello and receives its facts.
func (s *session) introduce(n *node, hello wire.Hello) error {
	if err := n.send(s.helloFor(n, hello)); err != nil {
		return err
	}
	return s.receiveFacts(n)
}

func (s *session) receiveFacts(n *node) error {
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
			Hint: "give a number, auto, gpu or cpu, or set GORUN_PYTHON to a Python that has PyTorch",
		}
	case facts.DirError != "":
		return &Error{
			Code: job.ExitLauncher, Text: printable.Text(facts.DirError),
			Hint: "add `--chdir DIR` to name a directory that each host has",
		}
	}
	n.facts = job.Facts{Facts: facts.Facts, Remote: !n.host.Here, Joined: n.joined}
	f := &n.facts
	f.LogDir, f.Notes = printable.Text(f.LogDir), printables(f.Notes)
	if !n.host.Here {
		f.Host = n.host.Name // the name to log in with
	}
	f.NCCL = printableHost(f.NCCL)
	if f.Boot != "" {
		f.Boot += " " + facts.Host // containers of one machine differ in their names
	}
	if s.spec.Join != nil {
		s.addLocalSettings(n)
	} else {
		s.dropNodeSettings(f)
	}
	// If nodes join or the user named an address, the script may look for the store elsewhere.
	for i := range f.Programs {
		f.Programs[i].Regroups = f.Programs[i].Regroups && s.listener == nil && s.spec.Store.Addr == ""
	}
	return n.checkPrograms(s.spec.Apps)
}

// dropNodeSettings removes from a node's facts what only a command line of its own could set.
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

// addLocalSettings adds what this node's command line sets. Joined nodes have sent theirs.
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

// warnDuplicates warns of a machine that was named twice. Nodes that were started one by one may
// share a machine on purpose, and a resource manager may define nodes as it likes.
func (s *session) warnDuplicates() {
	if s.engine != nil {
		return
	}
	first := map[string]*node{}
	for _, n := range s.nodes {
		boot := n.facts.Boot
		if twin := first[boot]; twin != nil && boot != "" && s.spec.Join == nil {
			s.settings.notify(fmt.Sprintf("%s and %s are the same machine: ranks share its CPUs and GPUs", twin.name, n.name))
			continue
		}
		first[boot] = n
	}
}

// checkPrograms reports programs that cannot be started on this node, unless they have no ranks
// there.
func (n *node) checkPrograms(apps []job.App) error {
	if err := n.facts.Check(len(apps)); err != nil {
		return failure(printable.Error(err))
	}
	var all *multierror.Error
	for i := range n.facts.Programs {
		p := &n.facts.Programs[i]
		if p.Error != "" && apps[i].RunsOn(&n.facts) {
			all = multierror.Append(all, &Error{Code: p.Code, Text: printable.Text(p.Error), Hint: printable.Text(p.Hint)})
		}
		p.MPI, p.Regroups = printable.Text(p.MPI), p.Regroups && p.Port != 0
	}
	return all.ErrorOrNil()
}

// Settings files are not shown, except for errors in them.
func printableHost(h nccl.Host) nccl.Host {
	for _, text := range []*string{&h.Library, &h.Torch, &h.Container, &h.Cloud, &h.NoVerbsWhy} {
		*text = printable.Text(*text)
	}
	return h
}

func printables(texts []string) (clean []string) {
	for _, t := range texts {
		clean = append(clean, printable.Text(t))
	}
	return clean
}

func versionError(n *node, version int) error {
	return &Error{
		Code: job.ExitLauncher, Text: fmt.Sprintf("the agent on %s has wire version %d, this gorun has %d",
			n.name, version, wire.Version),
		Hint: "use the same gorun on all hosts; without `--agent` it is copied there",
	}
}

func factsOf(nodes []*node) []job.Facts {
	list := make([]job.Facts, len(nodes))
	for i, n := range nodes {
		list[i] = n.facts
	}
	return list
}
