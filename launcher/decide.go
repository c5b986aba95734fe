package launcher

import (
	"crypto/rand"
	"errors"
	"fmt"

	"gorun/internal/printable"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/program"
	"gorun/launcher/job"
)

// decide queries the nodes, opens the store and makes the plan. A dry run opens no store and has
// job.AtStart for what only a start can tell.
func (s *session) decide() error {
	find := s.queryNodes
	if s.settings.Offline {
		find = s.assumeNodes
	}
	if err := find(); err != nil {
		return err
	}
	s.adoptScriptPort()
	opened := job.Opened{Addr: s.storeAddr(), Port: s.spec.Store.Port, Store: job.AtStart}
	s.ids = job.IDs{Job: job.AtStart, Run: job.AtStart, Dir: job.AtStart, World: job.AtStart}
	if !s.dryRun {
		var err error
		if err = s.withoutLost(func() error {
			if s.membersChanged {
				if err = s.meet(); err != nil {
					return err
				}
			}
			opened, err = s.openStore()
			return err
		}); err != nil {
			return err
		}
		if s.ids, err = newIDs(); err != nil {
			return failure(printable.Error(err))
		}
		s.key = make([]byte, keySize)
		rand.Read(s.key) // never fails
	}
	if err := s.makePlan(opened); err != nil {
		if s.settings.Offline {
			s.settings.notify("--offline: CPUs and GPUs of hosts are unknown")
		}
		return err
	}
	s.reportPlan()
	return nil
}

// keySize is in bytes, as package comm expects.
const keySize = 32

// newIDs returns random names for the job's marker, the ranks' run, its private directory and its
// MPI_COMM_WORLDs.
func newIDs() (ids job.IDs, err error) {
	for _, id := range []*string{&ids.Job, &ids.World, &ids.Run} {
		if *id, err = process.NewJobID(); err != nil {
			return ids, err
		}
	}
	ids.Dir = ids.Run[:16]
	return ids, nil
}

func (s *session) makePlan(opened job.Opened) (err error) {
	if s.plan, err = job.NewPlan(&s.spec, factsOf(s.nodes), s.ids, opened); err != nil {
		if wrong, ok := errors.AsType[*job.FactsError](err); ok {
			return failure(printable.Text(wrong.Error()))
		}
		return usageErrors(err)
	}
	s.active = nil // the last attempt's slice may still be in use
	for number, p := range s.plan.Nodes {
		n := s.nodes[p.Fact]
		if n.number != number {
			n.number = number
		}
		s.active = append(s.active, n)
	}
	return nil
}

// reportPlan reports decisions, notes and warnings.
func (s *session) reportPlan() {
	if !s.dryRun { // a dry run prints the plan
		if s.spec.PerNode.Kind == job.CountUnset && s.spec.Apps[0].NumRanks == 0 {
			s.settings.note(s.plan.Why)
		} else {
			s.settings.detail(s.plan.Why)
		}
		for _, app := range s.plan.Apps {
			s.settings.detail(fmt.Sprintf("program: %s (%s)", app.Path, app.Kind))
		}
		s.settings.detail("store: " + s.plan.Store.Why)
		if names := s.plan.Hosts(); len(names) > 1 {
			s.settings.detail("hosts: " + job.HostRanges(names))
		}
	}
	for _, note := range s.plan.Notes {
		s.settings.note(note)
	}
	for _, warning := range s.plan.Warnings {
		s.settings.notify(warning)
	}
	if s.dryRun {
		s.plan.Offline = s.settings.Offline
		s.plan.UsesMPI = s.anyProgramHere(program.UsesMPI)
		for _, note := range s.ncclExportNotes() {
			s.settings.notify(note)
		}
	}
	s.warnUnreadNames()
	s.reportBindings()
	s.settings.Planned(s.plan)
	if l := s.plan.Logs; !s.dryRun && l != nil && l.Files() && s.spec.Output.LogDir == "" &&
		(!l.Named() || s.spec.Output.LogsByRank) {
		s.settings.notify("log files are in " + l.Dir) // a temporary directory
	}
}
