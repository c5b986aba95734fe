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
	if err := s.forEach(func(n *node) error { return n.send(s.helloFor(n, hello)) }); err != nil {
		return err
	}
	err := s.forEach(s.receiveFacts)
	s.spec.CountSlots(factsOf(s.nodes))
	if err != nil || len(s.nodes) == 1 {
		return err
	}
	s.warnDuplicates()
	if s.rank0Node, err = job.HostOfRank0(&s.spec, factsOf(s.nodes)); err != nil {
		return usageErrors(err)
	}
	return s.chooseMaster()
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

// printableHost is what a node said of its host, fit for messages. Files of settings are
// not shown, but for what is wrong in them.
func printableHost(h nccl.Host) nccl.Host {
	h.Library, h.Container, h.Cloud = printable.Text(h.Library), printable.Text(h.Container), printable.Text(h.Cloud)
	h.NoVerbsWhy = printable.Text(h.NoVerbsWhy)
	return h
}

func printables(texts []string) (clean []string) {
	for _, t := range texts {
		clean = append(clean, printable.Text(t))
	}
	return clean
}

// otherVersion is an agent that does not understand this gorun.
func versionError(n *node, version int) error {
	return &Error{
		Code: job.ExitLauncher, Text: fmt.Sprintf("the agent on %s speaks version %d of gorun's frames, this gorun %d",
			n.name, version, wire.Version),
		Hint: "use the same gorun on all hosts; without --agent it is copied there",
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
