package plan

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gorun/env"
)

// Build decides the environment of every rank. An error names all exports that
// cannot be (as [errors.Join] does): a variable that gorun gives each rank itself
// comes from -x with the value that gorun gives it, or with [Inputs.LenientExports].
func Build(in Inputs) (Environment, error) {
	if err := in.check(); err != nil {
		return Environment{}, err
	}
	b := newBuilder(in)
	b.inherit()
	b.export()
	b.readConf()
	b.set()
	b.exportOwn()
	if err := errors.Join(b.errs...); err != nil {
		return Environment{}, err
	}
	b.leftAlone()
	b.reportConf()
	b.checkAgreement()
	b.warn()
	b.finish()
	return b.out, nil
}

// check finds inputs that contradict themselves, which no user can cause.
func (in *Inputs) check() error {
	if len(in.Ranks) == 0 {
		return errors.New("plan the environment: no ranks")
	}
	for i, r := range in.Ranks {
		if r.Node < 0 || r.Node >= len(in.Nodes) {
			return fmt.Errorf("plan the environment: rank %d is on node %d of %d", i, r.Node, len(in.Nodes))
		}
		if in.MPI.Offered && (r.MPI.World < 0 || r.MPI.World >= len(in.MPI.Worlds)) {
			return fmt.Errorf("plan the environment: rank %d is in world %d of %d", i, r.MPI.World, len(in.MPI.Worlds))
		}
	}
	return nil
}

// builder fills an Environment.
type builder struct {
	in      *Inputs
	out     Environment
	index   map[string]int         // of a name in out.Common
	perNode []int                  // ranks on each node
	onNode  []nodeVariables        // what a node's ranks have beside Common
	first   []int                  // rank of each node, -1: none
	outer   string                 // GORUN_JOB as inherited, "" where it is another's
	nested  bool                   // gorun runs inside another launcher's rank
	hip     bool                   // the user's list of GPUs is HIP_VISIBLE_DEVICES
	slurm   *slurm                 // nil: the ranks are not inside Slurm
	conf    []map[string]confEntry // what files of settings say, by node
	names   [][]string             // their names in the order of the files, by node
	roles   map[string]int         // how many ranks each has
	inRole  []int                  // of each rank: its number in its role
	ordered []bool                 // the user has said how GPUs are numbered, by node
	rdma    bool                   // overHosts, which looks at all nodes, as it is while settings are made, or nodeNotes
	stated  []Export               // of what gorun gives each rank itself
	errs    []error
}

func newBuilder(in Inputs) *builder {
	b := &builder{
		in: &in, index: make(map[string]int, len(in.Inherited)+len(rules)),
		perNode: make([]int, len(in.Nodes)), onNode: make([]nodeVariables, len(in.Nodes)),
	}
	b.out.Common = make([]Variable, 0, len(in.Inherited)+len(rules))
	b.first = slices.Repeat([]int{-1}, len(in.Nodes))
	for rank, r := range in.Ranks {
		if b.perNode[r.Node]++; b.first[r.Node] < 0 {
			b.first[r.Node] = rank
		}
	}
	b.roles, b.inRole = make(map[string]int), make([]int, len(in.Ranks))
	for rank := range in.Ranks {
		role := view{b, rank}.role()
		b.inRole[rank] = b.roles[role]
		b.roles[role]++
	}
	b.outer = env.Marked(func(name string) (string, bool) { return lookup(in.Inherited, name) })
	hip, _ := lookup(in.Inherited, env.VarHIPVisibleDevices)
	b.hip = hip != ""
	b.nested = isNested(in.Inherited)
	b.slurm = b.slurmStep()
	return b
}

// put adds a variable for all ranks, or replaces the one of that name.
func (b *builder) put(v Variable) {
	if i, ok := b.index[v.Name]; ok {
		b.out.Common[i] = v
		return
	}
	b.index[v.Name] = len(b.out.Common)
	b.out.Common = append(b.out.Common, v)
}

// has reports whether ranks have a variable so far.
func (b *builder) has(name string) bool {
	_, ok := b.index[name]
	return ok
}

// drop takes a variable from all ranks and returns it; the zero value for none.
func (b *builder) drop(name string) Variable {
	i, ok := b.index[name]
	if !ok {
		return Variable{}
	}
	dropped := b.out.Common[i]
	b.out.Common = slices.Delete(b.out.Common, i, i+1)
	delete(b.index, name)
	for other, j := range b.index {
		if j > i {
			b.index[other] = j - 1
		}
	}
	return dropped
}

// ofNode looks a variable up as the ranks of a rank's node have it so far.
func (b *builder) ofNode(rank int) func(name string) (string, bool) {
	own := b.onNode[b.in.Ranks[rank].Node]
	return func(name string) (string, bool) {
		if i := own.find(name); i >= 0 {
			return own[i].Value, true
		}
		if i, ok := b.index[name]; ok {
			return b.out.Common[i].Value, true
		}
		return "", false
	}
}

func (b *builder) note(format string, args ...any) {
	b.out.Notes = append(b.out.Notes, fmt.Sprintf(format, args...))
}

// inherit passes on what the launcher itself was given, without identities, and
// what nodes have of their own.
func (b *builder) inherit() {
	if b.in.ExportsOnly {
		return
	}
	everywhere, here, away := b.inheritors()
	passes, stays := b.in.forwards(), b.in.boundToHost()
	fromAgents := names{}
	if b.in.Engine {
		fromAgents = namesOf(ofEngine)
	}
	for _, entry := range b.in.Inherited {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			b.remove(entry, "not of the form NAME=VALUE")
			continue
		}
		if r := ruleFor(name); r != nil && (r.Class != ClassSetting || r.ofOuter && b.nested) {
			b.remove(name, b.removalReason(r))
			continue
		}
		if fromAgents.has(name) {
			continue
		}
		v := Variable{Name: name, Value: value, Origin: Inherited, Reason: "yours"}
		sent := len(away) > 0 && passes(name, value)
		if len(away) > 0 && !sent && !stays.has(name) && !slices.Contains(b.out.Withheld, name) {
			b.out.Withheld = append(b.out.Withheld, name)
		}
		switch {
		case everywhere && (sent || len(away) == 0):
			b.put(v)
		case sent:
			b.putOn(away, v)
			fallthrough
		default:
			b.putOn(here, v)
		}
	}
	for node, n := range b.in.Nodes {
		b.inheritOwn(node, n)
	}
}

// audience tells which nodes inherit the launcher's environment, whole (here) or in
// part (away), and whether these are all.
func (b *builder) inheritors() (everywhere bool, here, away []int) {
	everywhere = true
	for node, n := range b.in.Nodes {
		switch {
		case n.Joined:
			everywhere = false
		case n.Remote:
			away = append(away, node)
		default:
			here = append(here, node)
		}
	}
	return everywhere, here, away
}

// inheritOwn gives the ranks of a node what they have from the node itself.
func (b *builder) inheritOwn(node int, n Node) {
	own, reason := n.Environ, "the node's own"
	switch {
	case n.Joined:
	case n.Remote:
		own, reason = b.in.ofHost(own), "of that host"
	case b.in.Engine:
		own, reason = namesOf(ofEngine).of(own), "of this node"
	default:
		return
	}
	for _, entry := range own {
		name, value, ok := strings.Cut(entry, "=")
		if r := ruleFor(name); !ok || name == "" || r != nil && r.Class != ClassSetting {
			continue
		}
		b.onNode[node].put(Variable{Name: name, Value: value, Origin: Inherited, Reason: reason})
	}
}

// remove notes a removal, once per name; "" is none.
func (b *builder) remove(name, reason string) {
	if reason == "" {
		return
	}
	for _, r := range b.out.Removed {
		if r.Name == name {
			return
		}
	}
	b.out.Removed = append(b.out.Removed, Removal{Name: name, Reason: reason})
}

// removalReason says why an inherited variable is not passed on.
func (b *builder) removalReason(r *rule) string {
	switch {
	case r.Class == ClassRequest && b.nested:
		return "an outer launcher's store"
	case r.Class == ClassRequest:
		return "" // it was heard: the store listens there
	case r.Name == env.VarJob, r.Name == env.VarJobEngine:
		return "" // ranks get it, the first with this job's id behind
	case r.mpi && !b.applies(r):
		return "an outer launcher's; this job's ranks get none (--mpi)"
	case r.Source == slurmSource && r.value != nil && b.slurm == nil:
		return "of Slurm, in whose job not all of the ranks are"
	case r.Source == slurmSource && r.value != nil:
		return "of the script or step that gorun is in; ranks get what is true of them"
	case r.value != nil:
		return "an outer launcher's; every rank gets its own"
	case r.ofOuter:
		return "an outer launcher's"
	}
	return r.Reason
}

// export obeys -x.
func (b *builder) export() {
	for _, e := range b.in.Exports {
		_, isPattern := e.prefix()
		switch err := e.check(); {
		case err != nil:
			b.errs = append(b.errs, err)
		case e.Remove:
			b.removeNamed(e)
		case !isPattern && isOwn(e.Name):
			b.stated = append(b.stated, e)
		default:
			for _, v := range b.named(e) {
				b.exported(v)
			}
		}
	}
}

// named are the variables that an export comes to, those that it takes away without an origin. A pattern passes over
// identities: nobody means them.
func (b *builder) named(e Export) (all []Variable) {
	v := Variable{Name: e.Name, Value: e.Value, Origin: Exported, Reason: e.origin()}
	if e.HasValue && !e.Remove {
		return []Variable{v}
	}
	prefix, isPattern := e.prefix()
	for _, entry := range b.in.Inherited {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name != e.Name && !(isPattern && strings.HasPrefix(name, prefix) && exportable(name) == nil) {
			continue
		}
		if v.Name, v.Value = name, value; e.Remove {
			v = Variable{Name: name}
		}
		all = append(all, v)
	}
	switch {
	case len(all) > 0 || e.Remove || isOwn(e.Name): // ranks get what is their own all the same
	case isPattern:
		b.note("%s: no such variable is set here, so ranks get none", e)
	default:
		b.note("%s: the variable is not set here, so ranks do not get it", e)
	}
	return all
}

// exported gives ranks a variable that -x named. A wish was heard already.
func (b *builder) exported(v Variable) {
	if r := ruleFor(v.Name); r == nil || r.Class != ClassRequest {
		b.putEverywhere(v)
	}
	b.restore(v.Name)
}

// restore takes back the removal of a variable that -x named.
func (b *builder) restore(name string) {
	b.out.Withheld = slices.DeleteFunc(b.out.Withheld, func(n string) bool { return n == name })
	for i, r := range b.out.Removed {
		if r.Name == name {
			b.out.Removed = slices.Delete(b.out.Removed, i, i+1)
			return
		}
	}
}

// lookup finds a variable in an environment; of two the last counts.
func lookup(environ []string, name string) (string, bool) {
	for i := len(environ) - 1; i >= 0; i-- {
		if n, value, ok := strings.Cut(environ[i], "="); ok && n == name {
			return value, true
		}
	}
	return "", false
}

func (p view) localRank() string {
	if p.in.VirtualLocalRank {
		return "0"
	}
	return strconv.Itoa(p.own().LocalRank)
}

func (b *builder) localRankReason() string {
	switch {
	case b.in.VirtualLocalRank:
		return "the same for every rank (--virtual-local-rank)"
	case b.in.Isolated:
		return "which rank of its node this is; its GPU is device 0"
	}
	return "which rank of its node this is"
}

// visibleReason says why it has it.
func (b *builder) visibleReason(name string) string {
	_, rocr := b.in.Ranks[0].Visible[env.VarROCRVisibleDevices]
	switch {
	case b.in.VisibleWhy == "":
		return "the rank's only GPU (--virtual-local-rank)"
	case rocr && name != env.VarROCRVisibleDevices:
		return "counts what ROCR_VISIBLE_DEVICES leaves"
	}
	return b.in.VisibleWhy
}

// gpus are those that a rank sees by a variable. For a rank's only GPU CUDA's counts, and HIP's where the user gave
// one: it beats CUDA's.
func (p view) gpus(name string) (string, bool) {
	if value, ok := p.own().Visible[name]; ok {
		return value, true
	}
	counts := name == env.VarCUDAVisibleDevices || name == env.VarHIPVisibleDevices && p.hip
	return p.own().Device, p.own().Device != "" && counts
}

// seat is where a rank's node is among the job's.
func (p view) task() Task {
	if s := p.node().Task; s != nil {
		return *s
	}
	node := p.own().Node
	return Task{Group: node, NumGroups: len(p.in.Nodes), LocalRanks: p.perNode[node]}
}

// role is that of a rank, as its node has it.
func (p view) role() string { return cmp.Or(p.node().Role, p.in.Role, "default") }

// agentStore reports whether gorun serves the ranks' store. Where rank 0 does,
// torchrun's variables would make a client of it.
func (b *builder) agentStore() bool { return b.in.Store.Mode != StoreRank0 }

// attempts reports whether ranks hear of attempts.
func (b *builder) attempts() bool { return b.agentStore() || b.in.MaxRestarts > 0 }

func (b *builder) masterPortReason() string {
	if !b.agentStore() {
		return "kept free for rank 0, which serves the store"
	}
	return "the store's port"
}

func (b *builder) signals() string {
	if len(b.in.SignalsToHandle) == 0 {
		return defaultSignals
	}
	return strings.Join(b.in.SignalsToHandle, ",")
}

// marker is the job's id behind that of the job around it, and before that of its part
// on the rank's node.
func (p view) marker() string {
	parts := []string{p.outer, p.in.Job, p.node().Part}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ":")
}

func (p view) numThreads() int { return cmp.Or(p.own().Threads, p.node().Threads) }

// threadsReason tells how the number came about where all nodes agree.
func (b *builder) threadsReason() string {
	why := view{b, 0}.threadsWhy()
	for rank := range b.in.Ranks {
		if (view{b, rank}).threadsWhy() != why {
			why = ""
		}
	}
	return cmp.Or(why, "this node's usable CPUs ÷ its ranks")
}

func (p view) threadsWhy() string {
	if r := p.own(); r.Threads > 0 {
		return r.Why
	}
	return p.node().Why
}

// workingDir is PWD for a rank whose directory the user chose. Shells and Go's
// os.Getwd believe PWD where it fits, so that symbolic links keep their names.
func (p view) workingDir() string {
	dir := p.own().Dir
	if dir == "" || path.IsAbs(dir) {
		return dir
	}
	own, _ := lookup(p.in.Inherited, "PWD")
	return only(path.IsAbs(own), path.Join(own, dir))
}
