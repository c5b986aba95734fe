package job

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/env/plan"
	"gorun/placement"
)

// IDs are the names that a start makes up. In a plan that is only printed they are AtStart.
type IDs struct {
	Job string // 128 random bits in hexadecimal
	Run string // the job's name for its ranks where the user gave none
	Dir string // 64 random bits, for directory names that cannot be guessed
	// World is another 128 random bits in hexadecimal, kept out of reports and file names: whoever knows the name of an
	// MPI_COMM_WORLD may act as a rank.
	World string
	// Attempt is 0 for the first, Restarts counts those that followed failures or checkpoints, and Elapsed is the time of
	// the job until this one.
	Attempt  int
	Restarts int
	Elapsed  time.Duration
}

// short returns the random part of a log directory's name, as long as torchrun's.
func (ids IDs) short() string {
	const torchruns = 8
	if ids.Dir == AtStart {
		return AtStart
	}
	return ids.Dir[:torchruns]
}

// builder makes the parts of a plan, each from those before it.
type builder struct {
	spec   *Spec
	facts  []Facts // of the plan's nodes
	ids    IDs
	opened Opened
	layout placement.Layout
	appOf  []int // by rank
	plan   *Plan
	// sharers are the numbers of ranks that use the CPUs of each node.
	sharers []int
	// earlier is how many ranks the job had before those of this plan.
	earlier int
}

// NewPlan decides everything about a job. It reads nothing but its arguments. facts are those of the spec's hosts, in
// their order; hosts that get no rank are no nodes of the plan.
func NewPlan(spec *Spec, facts []Facts, ids IDs, opened Opened) (*Plan, error) {
	spares := spec.spares(facts)
	facts, layout, err := spec.layout(facts)
	if err != nil {
		return nil, err
	}
	n := len(layout.Ranks)
	if err := cmp.Or(spec.Stdin.check(n), spec.Policy.check(n)); err != nil {
		return nil, err
	}
	p := &Plan{
		JobID: ids.Job, RunID: cmp.Or(spec.RunID, ids.Run), Role: cmp.Or(spec.Role, "default"), Why: layout.Reason,
		Attempt: ids.Attempt, Stdin: spec.Stdin.String(), Notes: layout.Notes, HangTimeout: Seconds(spec.HangTimeout),
		MaxRestarts: spec.Restarts.Max, MPI: spec.MPI, MPIWhy: spec.MPIWhy, WorldPerApp: spec.WorldPerApp,
	}
	b := &builder{spec: spec, ids: ids, opened: opened, plan: p}
	b.facts, p.Nodes, p.Unused = nodesOf(facts, &layout)
	p.MinNodes, p.Spares = spec.MinNodes, spares
	b.layout, b.appOf = layout, spec.appOf(n)
	if err := cmp.Or(b.checkAlone(), b.checkKinds(), b.checkMPIFamilies()); err != nil {
		return nil, err
	}
	p.Apps = b.apps()
	p.Store = b.store()
	p.Logs = b.logs()
	if p.Ranks, err = b.ranks(); err != nil {
		return nil, err
	}
	b.sharers = b.countSharers()
	p.Worlds = b.worlds(facts)
	p.Warnings = slices.Concat(b.nodeNotes(), spec.Output.warnings(b.localRanks()), spec.warnings(), b.memoryWarnings(),
		b.warmWarnings())
	p.Notes = append(p.Notes, b.gpuNotes()...)
	if err := b.setEnvironment(); err != nil {
		return nil, err
	}
	p.supervision = b.supervision()
	p.Grace, p.Timeout = Seconds(p.supervision.Grace), Seconds(spec.Timeout)
	return p, nil
}

// totalRanks is the requested number of ranks of all programs; 0: any.
func (s *Spec) totalRanks() (n int) {
	for _, app := range s.Apps {
		n += app.NumRanks
	}
	return n
}

// KnownRanks returns how many ranks the spec has on a node, whatever that is like; 0: it depends on the node.
func (s *Spec) KnownRanks() int {
	if s.PerNode.Kind == CountFixed {
		return s.PerNode.N
	}
	return s.totalRanks()
}

// StartedByEngine reports whether one command of a resource manager starts all agents.
func (s *Spec) StartedByEngine() bool {
	return s.Join == nil && s.Reach.Engine != nil && len(s.Reach.Engine.Once) > 0
}

// nodeNotes are the notes of all nodes, each once, with the nodes' names if there are several.
func (b *builder) nodeNotes() (notes []string) {
	if len(b.facts) == 1 {
		return b.facts[0].Notes
	}
	from := make(map[string][]string)
	for _, f := range b.facts {
		for _, note := range f.Notes {
			if from[note] == nil {
				notes = append(notes, note)
			}
			from[note] = append(from[note], f.Host)
		}
	}
	for i, note := range notes {
		notes[i] = HostRanges(from[note]) + ": " + note
	}
	return notes
}

// check refuses ranks that do not exist: standard input would be lost without notice.
func (w StdinSpec) check(ranks int) error {
	wanted := w.Ranks
	if w.Kind == StdinRank {
		wanted = []int{w.Rank}
	}
	for _, rank := range wanted {
		if rank < 0 || rank >= ranks {
			return fmt.Errorf("--stdin %d: no such rank: the job has %s, numbered from 0", rank, plural(ranks, "rank"))
		}
	}
	return nil
}

// String returns which ranks read, as a plan shows it.
func (w StdinSpec) String() string {
	switch w.Kind {
	case StdinAll:
		return "every rank"
	case StdinNone:
		return "no rank"
	case StdinSome:
		return "ranks " + RankRanges(w.Ranks)
	}
	return fmt.Sprintf("rank %d", w.Rank)
}

// warnings are about options for local ranks that no node has.
func (o *OutputSpec) warnings(perNode int) (warnings []string) {
	warn := func(option string, localRanks []int) {
		for _, l := range localRanks {
			if l >= perNode {
				warnings = append(warnings,
					fmt.Sprintf("%s names local rank %d; there are local ranks 0 to %d", option, l, perNode-1))
			}
		}
	}
	warn("--local-ranks-filter", o.ShowLocalRanks)
	warn("--redirects", slices.Sorted(maps.Keys(o.Redirect.Ranks)))
	warn("--tee", slices.Sorted(maps.Keys(o.Tee.Ranks)))
	return warnings
}

// warnings are about options that have no effect without another one.
func (s *Spec) warnings() (warnings []string) {
	warn := func(is bool, option, needed string) {
		if is {
			warnings = append(warnings, fmt.Sprintf("%s has no effect without %s", option, needed))
		}
	}
	warn(s.Restarts.Max == 0 && s.Restarts.Delay != 0, "--restart-delay", "--max-restarts")
	once := s.Restarts.Max == 0 && s.Restarts.OnCodes == nil
	warn(once && s.Restarts.Window != 0, "--restart-window", "--max-restarts")
	warn(once && s.MinNodes == 0 && s.Restarts.Stalled != 0, "--max-no-progress-restarts", "--max-restarts or --min-nodes")
	warn(once && s.MinNodes == 0 && s.WarmImports != nil, "--warm-imports", "--max-restarts or --min-nodes")
	warn(s.StacksAtTimeout && s.Timeout == 0, "--get-stack-traces", "--timeout")
	warn(s.HangTimeout == 0 && s.OnHang == HangReport, "--on-hang report", "--hang-timeout")
	warn(s.HangTimeout == 0 && s.OnHang == HangStopBusy, "--on-hang stop-busy", "--hang-timeout")
	warn(s.WorldPerApp && len(s.Apps) < 2, "--world app", "several programs (prog1 : prog2)")
	warn(s.WorldPerApp && s.MPI == MPINone, "--world app", "MPI (--mpi auto)")
	warn(s.Tune != TuneTextbook && s.Study.ModelBytes != 0, "--model-size", "--tune textbook")
	warn(s.Tune != TuneTextbook && s.Study.Network != "", "--network", "--tune textbook")
	warn(s.PMIPort && s.MPI == MPINone, "--pmi-port", "PMI (--mpi auto)")
	return warnings
}

// warmWarnings are about programs that nothing can be imported for.
func (b *builder) warmWarnings() (warnings []string) {
	if app := &b.plan.Apps[0]; b.spec.WarmImports != nil && app.Python() == 0 {
		warnings = []string{"--warm-imports has no effect: " + app.Argv[0] + " is not Python with a script, -m or -c"}
	}
	return warnings
}

// ranks gives every rank its place, its program and its arguments.
func (b *builder) ranks() (ranks []Rank, err error) {
	for rank, at := range b.layout.Ranks {
		r := Rank{Process: Process{Rank: rank, Node: at.Node, LocalRank: at.LocalRank, App: b.appOf[rank]}}
		r.Argv = b.argv(r.App, at)
		b.place(&r, at)
		if b.spec.VirtualLocalRank && !b.spec.isolates() {
			if r.GPU, err = b.device(at); err != nil {
				return nil, err
			}
		}
		ranks = append(ranks, r)
	}
	return ranks, nil
}

// appOf returns the program of each rank.
func (s *Spec) appOf(ranks int) (apps []int) {
	if len(s.Apps) == 1 {
		return make([]int, ranks)
	}
	for i, app := range s.Apps {
		apps = append(apps, slices.Repeat([]int{i}, app.NumRanks)...)
	}
	return apps
}

// checkAlone refuses several ranks of a program that starts ranks itself.
func (b *builder) checkAlone() error {
	type place struct{ app, node int }
	var taken []place
	for rank, at := range b.layout.Ranks {
		here, alone := place{b.appOf[rank], at.Node}, b.spec.Apps[b.appOf[rank]].Alone
		if alone == nil {
			continue
		}
		if alone.InJob {
			here.node = 0
		}
		if slices.Contains(taken, here) {
			return errors.New(alone.Why)
		}
		taken = append(taken, here)
	}
	return nil
}

// argv returns a rank's own argument vector; nil where it is its program's.
func (b *builder) argv(app int, at placement.Rank) []string {
	a, p := &b.spec.Apps[app], &b.facts[at.Node].Programs[app]
	args, number := p.Argv[p.ScriptArg:], strconv.Itoa(at.LocalRank)
	template := strings.NewReplacer("${local_rank}", number, "$local_rank", number, "$$", "$") // Python's string.Template
	own := a.SubstituteLocalRank &&
		slices.ContainsFunc(args, func(arg string) bool { return template.Replace(arg) != arg })
	if !own && !a.LocalRankFlag {
		return nil
	}
	argv := slices.Clone(p.Argv[:p.ScriptArg])
	if a.LocalRankFlag {
		argv = append(argv, "--local-rank="+number)
	}
	for _, arg := range args {
		if own {
			arg = template.Replace(arg)
		}
		argv = append(argv, arg)
	}
	return argv
}

// ChooseStore returns which process serves the store, and why: the user's choice, else that of the program's own text.
func (s *Spec) ChooseStore(facts Facts) (mode StoreMode, why string) {
	switch s.Store.Mode {
	case StoreGorun:
		return StoreGorun, "--store=gorun"
	case StoreRank0:
		return StoreRank0, "rank 0 hosts it: --store=rank0 or the name that gorun was called by"
	}
	for _, p := range facts.Programs {
		switch {
		case p.AssignsPort == "":
		case p.Regroups && len(facts.Programs) == 1:
			return StoreGorun, fmt.Sprintf("gorun serves it at port %d, which %s assigns, "+
				"as rank 0's own ends with each process group", p.Port, p.AssignsPort)
		default:
			return StoreRank0, "rank 0 hosts it: " + p.AssignsPort + " assigns MASTER_PORT"
		}
	}
	return StoreGorun, "gorun serves it"
}

func (b *builder) store() Store {
	mode, why := b.spec.ChooseStore(b.facts[0])
	if from := b.spec.Store.From; from != "" && !strings.Contains(why, from) {
		why += ", where " + from + " says"
	}
	s := Store{Mode: plan.StoreGorun, Why: why, Addr: b.opened.Addr, Port: AtStart, Own: b.opened.Store}
	if b.opened.Port != 0 {
		s.Port = strconv.Itoa(b.opened.Port)
	}
	if mode == StoreRank0 {
		s.Mode = plan.StoreRank0
	}
	return s
}

func (b *builder) supervision() SupervisorConfig {
	c := SupervisorConfig{
		Grace: b.spec.Grace, Timeout: b.spec.Timeout, TimeoutCode: b.spec.TimeoutCode,
		Policy: b.spec.Policy, OnHang: b.spec.OnHang,
	}
	if c.Timeout > 0 {
		c.Timeout = max(c.Timeout-b.ids.Elapsed, 1)
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	c.Grace = max(c.Grace, 0)
	for _, name := range b.spec.SignalsToHandle {
		if n := unix.SignalNum(name); n != 0 {
			c.EndSignals = append(c.EndSignals, syscall.Signal(n))
		}
	}
	c.Preempt, c.Checkpointed = unix.SignalNum(b.spec.PreemptSignal), b.spec.Restarts.OnCodes
	for _, n := range b.plan.Nodes {
		c.Nodes = append(c.Nodes, n.Ranks)
	}
	return c
}
