package job

import (
	"cmp"
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

// IDs are the names that a start makes up. In a plan that is only printed they
// are AtStart.
type IDs struct {
	Job string // 128 random bits in hexadecimal
	Run string // the job's name for its ranks where the user gave none
	Dir string // 64 random bits, for directory names that nobody may guess
	// World is 128 random bits more, in hexadecimal, which stand in no report and no file's name:
	// who knows the name of an MPI_COMM_WORLD may act as a rank.
	World string
	// Attempt is 0 for the first, and Elapsed the time of the job until this one.
	Attempt int
	Elapsed time.Duration
}

// short is the random part of a log directory's name, as long as torchrun's.
func (ids IDs) short() string {
	const torchruns = 8
	if ids.Dir == AtStart {
		return AtStart
	}
	return ids.Dir[:torchruns]
}

// Request is what the wish asks of placement.
func (s *Spec) Request() placement.Request {
	r := placement.Request{
		Ranks:     s.totalRanks(),
		RanksFrom: s.RanksFrom,
		PerNode:   s.PerNode,
		Visible:   placement.VisibilityOf(s.rankEnviron()),
	}
	for _, h := range s.Hosts {
		r.Slots = append(r.Slots, h.Slots)
		r.MaxSlots = append(r.MaxSlots, h.MaxSlots)
		r.CoreSlots = r.CoreSlots || h.CoreSlots
	}
	// whose number nobody said
	r.SlotsFrom, r.SlotsAllotted = cmp.Or(s.SlotsFrom, s.HostsFrom), s.Reach.Engine != nil || r.CoreSlots
	s.Place.apply(&r)
	r.Isolate = s.isolates()
	r.Oversubscribe = s.Oversubscribe
	for _, app := range s.Apps {
		if app.Place != nil {
			other := placement.Request{Ranks: app.NumRanks, Isolate: r.Isolate}
			app.Place.apply(&other)
			r.Others = append(r.Others, other)
		}
	}
	return r
}

// rankEnviron is the inherited environment with what -x sets behind it, where it
// counts.
func (s *Spec) rankEnviron() []string { return s.withExports(s.Environ) }

func (s *Spec) withExports(environ []string) []string {
	environ = slices.Clip(environ)
	for _, e := range s.Exports {
		if e.HasValue {
			environ = append(environ, e.Name+"="+e.Value)
		}
	}
	return environ
}

// StartedByEngine reports whether one command of a resource manager's starts all agents.
func (s *Spec) StartedByEngine() bool {
	return s.Join == nil && s.Reach.Engine != nil && len(s.Reach.Engine.Once) > 0
}

// ownGPUs reports whether the node itself says by variables which GPUs ranks see there:
// a resource manager gives each node other ones, and who joins brings his own.
func (s *Spec) ownGPUs(f Facts) bool { return f.Joined || s.StartedByEngine() }

// gpuEnviron has these variables of a node.
func (s *Spec) gpuEnviron(f Facts) []string {
	if s.ownGPUs(f) {
		return s.withExports(f.Environ)
	}
	return s.rankEnviron()
}

// hidden adds to the facts which GPUs are hidden by variables of the nodes' own.
func (s *Spec) hidden(facts []Facts) []Facts {
	facts = slices.Clone(facts)
	for i, f := range facts {
		if s.ownGPUs(f) {
			visible := placement.VisibilityOf(s.gpuEnviron(f))
			facts[i].Machine.Hidden = &visible
		}
	}
	return facts
}

// totalRanks is the wished number of ranks of all programs; 0: not said.
func (s *Spec) totalRanks() (n int) {
	for _, app := range s.Apps {
		n += app.NumRanks
	}
	return n
}

// KnownRanks is how many ranks the wish has on a node whatever the node is like;
// 0: that depends on the node.
func (s *Spec) KnownRanks() int {
	if s.PerNode.Kind == CountFixed {
		return s.PerNode.N
	}
	return s.totalRanks()
}

// NewPlan decides everything about a job from the wish and what the nodes said
// of themselves. It reads nothing else: the same arguments give the same plan.
// Facts are those of the wish's hosts, in their order; hosts that get no rank are
// no nodes of the plan.
func NewPlan(spec *Spec, facts []Facts, ids IDs, opened Opened) (*Plan, error) {
	facts, err := spec.chosen(facts)
	if err != nil {
		return nil, err
	}
	facts = spec.hidden(facts)
	layout, err := spec.layout(facts)
	if err != nil {
		return nil, err
	}
	n := len(layout.Ranks)
	if err := cmp.Or(spec.Stdin.check(n), spec.Policy.check(n)); err != nil {
		return nil, err
	}
	p := &Plan{
		JobID: ids.Job, RunID: cmp.Or(spec.RunID, ids.Run), Role: cmp.Or(spec.Role, "default"), Why: layout.Reason,
		Attempt: ids.Attempt, Stdin: spec.Stdin.String(), Notes: layout.Notes, HangTimeout: spec.HangTimeout,
		MaxRestarts: spec.Restarts.Max, MPI: spec.MPI, MPIWhy: spec.MPIWhy, WorldPerApp: spec.WorldPerApp,
	}
	b := &builder{spec: spec, ids: ids, opened: opened, plan: p}
	b.facts, p.Nodes, p.Unused = nodesOf(facts, &layout)
	b.layout, b.appOf = layout, spec.appOf(n)
	if err := cmp.Or(b.sameKinds(), b.oneFamily()); err != nil {
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
	p.Warnings = slices.Concat(notesOf(b.facts), spec.Output.strays(b.localRanks()), spec.idle(), b.homeless())
	p.Notes = append(p.Notes, b.ownGPUs()...)
	environment, err := b.environment()
	if err != nil {
		return nil, err
	}
	p.setEnvironment(environment)
	p.supervision = b.supervision()
	p.Grace, p.Timeout = p.supervision.Grace, spec.Timeout
	return p, nil
}

// notesOf are the remarks of all nodes, with the nodes' names where there are
// several; what many say is said once.
func notesOf(facts []Facts) (notes []string) {
	if len(facts) == 1 {
		return slices.Clone(facts[0].Notes)
	}
	from := make(map[string][]string)
	for _, f := range facts {
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

// check refuses a rank that does not exist: nobody would read, without a word.
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

// String says which ranks read, as a plan shows it.
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

// strays are remarks on local ranks that options name and no node has: what was
// wished of them would be missed without a word.
func (o OutputSpec) strays(perNode int) (notes []string) {
	stray := func(option string, localRank int) {
		if localRank >= perNode {
			notes = append(notes, fmt.Sprintf("%s names local rank %d; there are local ranks 0 to %d", option, localRank,
				perNode-1))
		}
	}
	for _, l := range o.ShowLocalRanks {
		stray("--local-ranks-filter", l)
	}
	for _, l := range slices.Sorted(maps.Keys(o.Redirect.Ranks)) {
		stray("--redirects", l)
	}
	for _, l := range slices.Sorted(maps.Keys(o.Tee.Ranks)) {
		stray("--tee", l)
	}
	return notes
}

// idle are remarks on options about the end of the job that have no effect without
// another: who sets the delay before restarts believes that there are some.
func (s *Spec) idle() (notes []string) {
	idle := func(is bool, option, needed string) {
		if is {
			notes = append(notes, fmt.Sprintf("%s has no effect without %s", option, needed))
		}
	}
	idle(s.Restarts.Max == 0 && s.Restarts.Delay != 0, "--restart-delay", "--max-restarts")
	idle(s.Restarts.Max == 0 && s.Restarts.Window != 0, "--restart-window", "--max-restarts")
	idle(s.StacksAtTimeout && s.Timeout == 0, "--get-stack-traces", "--timeout")
	idle(s.HangTimeout == 0 && s.OnHang == HangReport, "--on-hang report", "--hang-timeout")
	idle(s.WorldPerApp && len(s.Apps) < 2, "--world app", "several programs (prog1 : prog2)")
	idle(s.WorldPerApp && s.MPI == MPINone, "--world app", "MPI (--mpi auto)")
	idle(s.Tune != TuneTextbook && s.Study.ModelBytes != 0, "--model-size", "--tune textbook")
	idle(s.Tune != TuneTextbook && s.Study.Network != "", "--network", "--tune textbook")
	idle(s.PMIPort && s.MPI == MPINone, "--pmi-port", "PMI (--mpi auto)")
	return notes
}

// builder decides about the parts of a plan, each from those before it.
type builder struct {
	spec   *Spec
	facts  []Facts // of the plan's nodes
	ids    IDs
	opened Opened
	layout placement.Layout
	appOf  []int // of each rank
	plan   *Plan // as far as it has come
	// sharers are the numbers of ranks that use the CPUs of each node.
	sharers []int
	// earlier is how many ranks the job had before those of this plan.
	earlier int
}

// ranks gives every rank its place, its program and its arguments.
func (b *builder) ranks() (ranks []Rank, err error) {
	for rank, place := range b.layout.Ranks {
		r := Rank{Process: Process{Rank: rank, Node: place.Node, LocalRank: place.LocalRank, App: b.appOf[rank]}}
		r.Argv = b.argv(r.App, place)
		b.place(&r, place)
		if b.spec.VirtualLocalRank && !b.spec.isolates() {
			if r.GPU, err = b.device(place); err != nil {
				return nil, err
			}
		}
		ranks = append(ranks, r)
	}
	return ranks, nil
}

// appOf is the program of each rank.
func (s *Spec) appOf(ranks int) (apps []int) {
	if len(s.Apps) == 1 {
		return make([]int, ranks)
	}
	for i, app := range s.Apps {
		apps = append(apps, slices.Repeat([]int{i}, app.NumRanks)...)
	}
	return apps
}

// localRankText is what torchrun replaces in a program's arguments.
const localRankText = "${local_rank}"

// argv is a rank's own argument vector; nil where it is its program's.
func (b *builder) argv(app int, at placement.Rank) []string {
	wish, p := &b.spec.Apps[app], &b.facts[at.Node].Programs[app]
	if !wish.LocalRankFlag && !wish.SubstituteLocalRank {
		return nil
	}
	number := strconv.Itoa(at.LocalRank)
	argv := append([]string(nil), p.Argv[:p.ScriptArg]...)
	if wish.LocalRankFlag {
		argv = append(argv, "--local-rank="+number)
	}
	changed := wish.LocalRankFlag
	for _, a := range p.Argv[p.ScriptArg:] {
		if wish.SubstituteLocalRank && strings.Contains(a, localRankText) {
			a, changed = strings.ReplaceAll(a, localRankText, number), true
		}
		argv = append(argv, a)
	}
	if !changed {
		return nil
	}
	return argv
}

// device is the GPU that a rank sees with --virtual-local-rank, as torchrun
// chooses it: the entry of its local rank in the list of visible devices, or
// that number itself where there is no list. A process that is one rank may have
// been given one of its own.
func (b *builder) device(at placement.Rank) (string, error) {
	devices, name := b.visible(at.Node)
	switch {
	case devices == nil:
		return strconv.Itoa(at.LocalRank), nil
	case len(devices) == 1 && b.facts[at.Node].Task != nil:
		return strings.TrimSpace(devices[0]), nil
	case at.LocalRank >= len(devices):
		return "", fmt.Errorf("--virtual-local-rank: %s=%s has no device for local rank %d", name,
			strings.Join(devices, ","), at.LocalRank)
	}
	return strings.TrimSpace(devices[at.LocalRank]), nil
}

// lookup finds a variable in an environment; the last entry counts.
func lookup(environ []string, name string) (string, bool) {
	for i := len(environ) - 1; i >= 0; i-- {
		if n, value, ok := strings.Cut(environ[i], "="); ok && n == name {
			return value, true
		}
	}
	return "", false
}

// ChooseStore decides who serves the store: what the user said, else whom the
// program's own text asks for.
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

// store is where ranks meet.
func (b *builder) store() Store {
	mode, why := b.spec.ChooseStore(b.facts[0])
	port := strconv.Itoa(b.opened.Port)
	if b.opened.Port == 0 {
		port = AtStart
	}
	if from := b.spec.Store.From; from != "" && !strings.Contains(why, from) {
		why += ", where " + from + " says"
	}
	s := Store{Mode: plan.StoreGorun, Why: why, Addr: b.opened.Addr, Port: port, Own: b.opened.Store}
	if mode == StoreRank0 {
		s.Mode = plan.StoreRank0
	}
	return s
}

// supervision is what the supervisor has to know.
func (b *builder) supervision() SupervisorConfig {
	c := SupervisorConfig{
		Grace: b.spec.Grace, Timeout: b.spec.Timeout, TimeoutCode: b.spec.TimeoutCode,
		Policy: b.spec.Policy, OnHang: b.spec.OnHang,
	}
	if c.Timeout > 0 {
		c.Timeout = max(c.Timeout-b.ids.Elapsed, 1)
	}
	switch {
	case c.Grace == 0:
		c.Grace = DefaultGrace
	case c.Grace < 0:
		c.Grace = 0
	}
	for _, name := range b.spec.SignalsToHandle {
		if n := unix.SignalNum(name); n != 0 {
			c.EndSignals = append(c.EndSignals, syscall.Signal(n))
		}
	}
	for _, n := range b.plan.Nodes {
		c.Nodes = append(c.Nodes, n.Ranks)
	}
	return c
}
