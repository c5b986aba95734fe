package dialect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/job"
)

// startMode holds options on how a program is started.
type startMode struct{ module, noPython, runPath bool }

// addApp ends the options of one program.
func (p *Line) addApp(words []string, ended bool) {
	if len(words) > 0 {
		p.app.Program, p.app.Args = words[0], words[1:]
		if p.dialect.strict && !ended && len(words) > 1 && words[1] == "--" { // as argparse has it
			p.app.Args = words[2:]
		}
		if !ended && p.Invocation.Dialect == Gorun {
			p.refuseMissingCommand(words[0])
		}
	}
	p.app.Path = cmp.Or(p.app.Path, p.searchPath)
	p.app.Start = p.startOf()
	p.app.Interpreter = p.interpreter()
	p.app.SubstituteLocalRank = p.dialect.python
	p.app.LocalRankFlag = p.dialect.launch && !p.useEnv
	spec := &p.Spec
	if len(spec.Apps) > 0 && p.ranksFrom != "" {
		spec.RanksFrom += " : "
	}
	spec.RanksFrom += p.ranksFrom
	if p.preload && p.app.Program != "" {
		spec.Reach.Copy, p.preload = append(spec.Reach.Copy, p.app.Program), false
	}
	spec.Apps = append(spec.Apps, p.app)
}

// interpreter returns the Python that a variable names.
func (p *Line) interpreter() string {
	for _, name := range p.dialect.interpreters {
		if value := p.variable(name); value != "" {
			return value
		}
	}
	return ""
}

// variable returns a variable of the launcher's environment.
func (p *Line) variable(name string) string {
	value, _ := p.around.Lookup(name)
	return value
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

// ResolveJob completes the line of a job. The order matters: hosts before the store, nodes and slots.
func (p *Line) ResolveJob() {
	p.resolveEnvLists()
	p.resolvePrefixes()
	p.resolveApps()
	p.CheckPrograms()
	p.resolveHosts()
	p.resolveAppHosts()
	p.resolveStore()
	p.resolveNodes()
	p.resolveSlots()
	p.checkCounts()
	p.checkReach()
	p.resolveExports()
	p.resolvePlacement()
	for _, text := range p.idle {
		p.verbose("%s", text)
	}
	p.resolveOutput()
	p.resolveEnd()
	p.limitLaunchers()
	p.checkTrailingOptions()
	p.NoteUnknownVariables()
	if p.Spec.Tune == job.TuneTextbook && p.command == nil {
		p.Note("gorun env --tune textbook says of each setting what is wrong with it")
	}
}

// CheckPrograms requires a program, and a number of ranks from each of several.
func (p *Line) CheckPrograms() {
	apps := p.Spec.Apps
	for i, app := range apps {
		switch {
		case app.Program == "" && app.Args != nil: // an empty word
			p.problem("empty program name: an unset variable?")
		case app.Program == "" && len(apps) > 1:
			p.problem("program %d of %d is missing: write %s", i+1, len(apps), writeColon)
		case app.Program == "":
			p.Problem(helpNeeded{
				error: fmt.Errorf("no program given: %s [options] PROGRAM [ARGS...]%s", p.dialect.Name, p.swallowed),
			})
		case app.NumRanks == 0 && len(apps) > 1:
			write := strings.Replace(writeColon, "PROGRAM", app.Program, 1)
			if i == 0 {
				write = strings.Replace(writeColon, ": -n N PROGRAM", "-n N "+app.Program+" : ...", 1)
			}
			p.problem("%s has no number of ranks: with several programs each needs its own -n: write %s", app.Program, write)
		}
	}
	if len(apps) == 1 {
		p.Spec.Dir, apps[0].Dir = cmp.Or(apps[0].Dir, p.Spec.Dir), ""
	}
}

// numRanks returns the number of ranks that options give to all programs.
func (p *Line) numRanks() (total int) {
	for _, app := range p.Spec.Apps {
		total += app.NumRanks
	}
	return total
}

// checkCounts compares the two ways to give a number of ranks. On one node NumRanks and PerNode have to
// be equal; on several nodes PerNode is the maximum of each.
func (p *Line) checkCounts() {
	spec := &p.Spec
	total, several := p.numRanks(), len(spec.Apps) > 1
	perNode, nodes := spec.PerNode, max(len(spec.Hosts), 1)
	fixed, most := perNode.Kind == job.CountFixed, perNode.N*nodes
	isLimit := !several && p.perNodeFrom != "" // -ppn, as in mpirun
	switch {
	case total == 0 && perNode.Kind == job.CountUnset:
		if p.dialect.count > 0 {
			spec.PerNode = job.Count{Kind: job.CountFixed, N: p.dialect.count, From: p.dialect.Name + "'s default"}
		}
	case total == 0 || perNode.Kind == job.CountUnset:
	case isLimit && (total <= most || !fixed):
	case isLimit && isVariable(p.perNodeFrom):
		p.hint("%s is ignored beside %s, which is more", perNode.From, p.ranksFrom)
		spec.PerNode = job.Count{}
	case several:
		p.problem("%s does not go with several programs: each has its own -n", perNode.From)
	case !fixed:
		p.problem("%s and %s both give the number of ranks: keep one", p.ranksFrom, perNode.From)
	case nodes > 1 && total <= most:
	case nodes > 1:
		p.problem("%s contradicts %s, which makes %d on %d hosts", p.ranksFrom, perNode.From, most, nodes)
	case total != perNode.N && p.nodesFrom != "":
		p.problem("%s contradicts %s with %s, which make %d", p.ranksFrom, perNode.From, p.nodesFrom, perNode.N)
	case total != perNode.N:
		p.problem("%s contradicts %s, which makes %d on one host", p.ranksFrom, perNode.From, perNode.N)
	}
}

// endpoint is where a store listens.
type endpoint struct {
	addr string
	port int
}

// resolveStore decides where the store listens, in torchrun's order: --standalone (any free
// port), --rdzv-endpoint, --master-addr and --master-port, --local-addr.
func (p *Line) resolveStore() {
	store := &p.Spec.Store
	switch {
	case p.standalone:
		p.noteOverridden("--standalone", p.endpoint.from, p.masterAddr.from, p.masterPort.from, p.runIDFrom)
		p.Spec.RunID, store.IgnoreEnviron = "", true
	case p.endpoint.from != "":
		store.Addr, store.Port, store.From = p.endpoint.value.addr, p.endpoint.value.port, p.endpoint.from
		if p.masterAddr.value != store.Addr {
			p.noteOverridden(store.From, p.masterAddr.from)
		}
		if p.masterPort.value != store.Port {
			p.noteOverridden(store.From, p.masterPort.from)
		}
	default:
		addr := p.masterAddr
		if addr.from == "" && !p.joins() { // else it is the address under which other nodes reach this one
			addr = p.localAddr
		}
		store.Addr, store.Port, store.From = addr.value, p.masterPort.value, joinWords(addr.from, p.masterPort.from)
	}
}

// noteOverridden notes options that a stronger one overrides; "" is no note.
func (p *Line) noteOverridden(stronger string, options ...string) {
	for _, o := range options {
		if o != "" {
			p.note("%s is ignored beside %s (as in torchrun)", o, stronger)
		}
	}
}

// joinWords joins words that are not empty.
func joinWords(words ...string) string { return joined(" ", words...) }

func joined(separator string, words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), separator)
}

// resolveEnd fills in defaults on the job's end, and refuses options that do not go together.
func (p *Line) resolveEnd() {
	spec := &p.Spec
	spec.Grace = cmp.Or(spec.Grace, p.dialect.grace)
	spec.TimeoutCode = p.dialect.timeoutCode
	if spec.SignalsToHandle == nil {
		spec.SignalsToHandle = p.dialect.signals
	}
	if p.JSON && !p.DryRun && p.command == nil {
		p.problem("--json prints the plan of --dry-run: add it; --report FILE writes how the job ended")
	}
	if p.Report != "" && p.DryRun {
		p.problem("--report and --dry-run contradict each other: a plan has no end to report")
	}
	if p.Quiet && p.Verbose > 0 {
		p.problem("--quiet and --verbose contradict each other")
	}
}
