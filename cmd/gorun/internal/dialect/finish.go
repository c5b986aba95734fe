package dialect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/job"
)

// addApp ends the options of one program.
func (p *Line) addApp(words []string) {
	if len(words) > 0 {
		p.app.Program, p.app.Args = words[0], words[1:]
	}
	p.app.Path = cmp.Or(p.app.Path, p.mpi.path)
	p.app.Start = p.startOf()
	p.app.Interpreter = p.interpreter()
	p.app.SubstituteLocalRank = p.dialect.python
	p.app.LocalRankFlag = p.dialect.launch && !p.useEnv
	spec := &p.Spec
	if len(spec.Apps) > 0 && p.ranksFrom != "" {
		spec.RanksFrom += " : "
	}
	spec.RanksFrom += p.ranksFrom
	if p.mpi.preload && p.app.Program != "" {
		spec.Reach.Copy, p.mpi.preload = append(spec.Reach.Copy, p.app.Program), false
	}
	spec.Apps = append(spec.Apps, p.app)
}

// interpreter is the Python that a variable names, for programs that need one.
func (p *Line) interpreter() string {
	for _, name := range p.dialect.interpreters {
		if value, _ := p.around.Lookup(name); value != "" {
			return value
		}
	}
	return ""
}

// startOf decides how the program is started.
func (p *Line) startOf() job.Start {
	switch {
	case p.start.runPath:
		return job.StartPython
	case p.start.module && p.start.noPython:
		p.problem("--module and --no-python contradict each other: a module needs Python")
	case p.start.module:
		return job.StartModule
	case p.start.noPython && p.dialect.launch && !p.useEnv:
		p.problem("--no-python needs --use-env: a program that is not Python's knows no --local-rank")
	case p.start.noPython:
		return job.StartExec
	case p.dialect.python:
		return job.StartPython
	}
	return job.StartAuto
}

// FinishJob makes a job of what was said.
func (p *Line) FinishJob() {
	p.finishEnvironmentLists()
	p.finishPrefixes()
	p.finishApps()
	p.CheckPrograms()
	p.settleReach()
	p.finishHosts()
	p.finishAppHosts()
	p.finishStore()
	p.finishNodes()
	p.finishSlots()
	p.finishCounts()
	p.finishReach()
	p.finishBare()
	p.finishPE()
	p.finishCPUList()
	p.noteIdle()
	p.finishOutput()
	p.finishAction()
	p.noteRankStarters()
	p.NoteStrangers()
	p.noteStudy()
}

// CheckPrograms: every app has a program, and with several a number of ranks.
func (p *Line) CheckPrograms() {
	apps := p.Spec.Apps
	for i, app := range apps {
		switch {
		case app.Program == "" && app.Args != nil: // a word was there
			p.problem("the program's name is empty: an unset variable?")
		case app.Program == "" && len(apps) > 1:
			p.problem("program %d of %d is missing: write %s", i+1, len(apps), writeColon)
		case app.Program == "":
			p.Problem(helpNeeded{fmt.Errorf("no program given: %s [options] PROGRAM [ARGS...]%s", p.dialect.Name, p.swallowed)})
		case app.NumRanks == 0 && len(apps) > 1:
			p.problem("%s has no number of ranks: with several programs each needs its own -n: write %s",
				app.Program, howToCount(i, app.Program))
		}
	}
	if len(apps) == 1 {
		p.Spec.Dir, apps[0].Dir = cmp.Or(apps[0].Dir, p.Spec.Dir), ""
	}
}

// howToCount is what to write for a program of several that has no number of
// ranks: it is typed before the first one, and behind the `:` of the others.
func howToCount(i int, program string) string {
	if i == 0 {
		return "\"-n N " + program + " : ...\"; for a : that is an argument put -- before the first program"
	}
	return strings.Replace(writeColon, "PROGRAM", program, 1)
}

// numRanks is how many ranks all programs have, as far as that is said.
func (p *Line) numRanks() (total int) {
	for _, app := range p.Spec.Apps {
		total += app.NumRanks
	}
	return total
}

// finishCounts compares what the counts say about each other: one node has
// NumRanks or PerNode ranks, and both can only be said if they are equal; on
// several nodes PerNode is what each has at most.
func (p *Line) finishCounts() {
	spec := &p.Spec
	total := p.numRanks()
	perNode, nodes := spec.PerNode, max(len(spec.Hosts), 1)
	switch {
	case total == 0 && perNode.Kind == job.CountUnset:
		if p.dialect.count > 0 {
			spec.PerNode = job.Count{Kind: job.CountFixed, N: p.dialect.count, From: p.dialect.Name + "'s default"}
		}
	case total == 0 || perNode.Kind == job.CountUnset:
	case len(spec.Apps) == 1 && p.mpi.perNode.From != "" && isVariable(p.mpi.perNode.From) &&
		perNode.Kind == job.CountFixed && total > perNode.N*nodes:
		p.hint(perNode.From + " does not count beside " + p.ranksFrom + ", which is more")
		spec.PerNode = job.Count{}
	// a limit, as to mpirun
	case p.mpi.perNode.From != "" && len(spec.Apps) == 1 && (total <= perNode.N*nodes || perNode.Kind != job.CountFixed):
	case len(spec.Apps) > 1:
		p.problem("%s does not go with several programs: each has its own -n", perNode.From)
	case perNode.Kind != job.CountFixed:
		p.problem("%s and %s both give the number of ranks: keep one", p.ranksFrom, perNode.From)
	case nodes > 1 && total <= perNode.N*nodes:
	case nodes > 1:
		p.problem("%s contradicts %s, which makes %d on %d hosts", p.ranksFrom, perNode.From, perNode.N*nodes,
			nodes)
	case total != perNode.N && p.nodesFrom != "":
		p.problem("%s contradicts %s with %s, which make %d", p.ranksFrom, perNode.From, p.nodesFrom, perNode.N)
	case total != perNode.N:
		p.problem("%s contradicts %s, which makes %d on one host", p.ranksFrom, perNode.From, perNode.N)
	}
}

// finishStore decides where the store listens, in torchrun's order: --standalone
// anywhere free, then --rdzv-endpoint, then --master-addr and --master-port,
// then --local-addr.
func (p *Line) finishStore() {
	store := &p.Spec.Store
	switch {
	case p.standalone:
		p.passedOver("--standalone", p.endpoint.addrFrom, p.master.addrFrom, p.master.portFrom, p.runIDFrom)
		p.Spec.RunID = ""
	case p.endpoint.addrFrom != "":
		store.Addr, store.Port, store.From = p.endpoint.addr, p.endpoint.port, p.endpoint.addrFrom
		if p.master.addrFrom != "" && p.master.addr != p.endpoint.addr {
			p.passedOver(p.endpoint.addrFrom, p.master.addrFrom)
		}
		if p.master.portFrom != "" && p.master.port != p.endpoint.port {
			p.passedOver(p.endpoint.addrFrom, p.master.portFrom)
		}
	default:
		addr := p.master
		if addr.addrFrom == "" && !p.joins() { // of a node that joins it is what others reach it by
			addr.addr, addr.addrFrom = p.local.addr, p.local.addrFrom
		}
		store.Addr, store.Port, store.From = addr.addr, addr.port, joinWords(addr.addrFrom, addr.portFrom)
	}
}

// passedOver says that options do not count beside a stronger one.
func (p *Line) passedOver(stronger string, options ...string) {
	for _, o := range options {
		if o != "" {
			p.Note(o + " does not count beside " + stronger + " (as in torchrun)")
		}
	}
}

// joinWords joins what is not empty.
func joinWords(words ...string) string { return joined(" ", words...) }

func joined(separator string, words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), separator)
}

// finishAction settles what is done, and how long its end may take.
func (p *Line) finishAction() {
	inv := &p.Invocation
	if inv.Spec.Grace == 0 {
		inv.Spec.Grace = p.dialect.grace
	}
	inv.Spec.TimeoutCode = p.dialect.timeoutCode
	if inv.Spec.SignalsToHandle == nil {
		inv.Spec.SignalsToHandle = p.dialect.signals
	}
	if inv.JSON && !p.DryRun && p.command == nil {
		p.problem("--json prints the plan of --dry-run: add it; --report FILE writes how the job ended")
	}
	if inv.Report != "" && p.DryRun {
		p.problem("--report and --dry-run contradict each other: a plan has no end to report")
	}
	if inv.Quiet && inv.Verbose > 0 {
		p.problem("--quiet and --verbose contradict each other")
	}
}
