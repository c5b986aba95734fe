package launcher

import (
	"os"
	"slices"

	"gorun/launcher/hosts"
	"gorun/launcher/internal/program"
	"gorun/launcher/internal/spec"
	"gorun/launcher/job"
)

// assumeNodes makes the nodes of the spec's hosts, with nothing but what the spec and this host tell.
func (s *session) assumeNodes() (err error) {
	if err := s.applyMasterVariables(); err != nil {
		return err
	}
	noSlots := func(h hosts.Host) bool { return h.Slots == 0 || h.CoreSlots }
	bySlots := s.spec.PerNode.Kind == job.CountUnset && len(s.spec.Hosts) > 0 &&
		!slices.ContainsFunc(s.spec.Hosts, noSlots)
	if s.spec.KnownRanks() == 0 && !bySlots {
		return &Error{
			Code: job.ExitUsage, Text: "--offline: the number of ranks depends on the hosts",
			Hint: "give -n N, --nproc-per-node N, or slots: -H node1:4,node2:4",
		}
	}
	s.listNodes()
	programs := s.assumePrograms()
	for _, n := range s.nodes {
		name := n.host.Name
		if n.host.Here && len(s.nodes) == 1 {
			name, _ = os.Hostname()
		}
		n.facts = job.Facts{
			Facts:  spec.Facts{Host: name, TempDir: s.tempDir(), Programs: programs},
			Remote: !n.host.Here,
		}
	}
	if len(s.nodes) == 1 {
		return nil
	}
	if s.rank0Node, err = job.HostOfRank0(&s.spec, factsOf(s.nodes)); err != nil {
		return usageErrors(err)
	}
	if s.spec.Store.Addr == "" {
		s.masterAddr = s.nodes[s.rank0Node].facts.Host
	}
	return nil
}

// assumePrograms resolves the programs on this host, and takes those that are not here as they are.
func (s *session) assumePrograms() (programs []spec.Program) {
	for _, app := range s.spec.Apps {
		argv := append([]string{app.Program}, app.Args...)
		p := spec.Program{Path: app.Program, Argv: argv, ScriptArg: 1, Kind: string(program.Executable)}
		if r, err := s.resolve(s.commandOf(&app)); err == nil {
			p.Path, p.Argv, p.ScriptArg, p.Kind = r.Path, r.Argv, r.ScriptArg, string(r.Kind)
		}
		programs = append(programs, p)
	}
	return programs
}
