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
	"gorun/env/nccl"
)

// Build computes the environment of every rank. Its error joins (as [errors.Join] does) one error for each invalid
// export. Exporting a variable that gorun sets for each rank is valid only with gorun's own value or with
// [Inputs.LenientExports].
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

// check rejects inconsistent inputs, which only a bug in the caller produces.
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
	index   map[string]int               // of each name in out.Common
	perNode []int                        // ranks on each node
	onNode  []nodeVariables              // variables of a node's ranks besides Common
	first   []int                        // first rank of each node, or -1
	outer   string                       // inherited GORUN_JOB, "" if another job's
	nested  bool                         // gorun runs inside another launcher's rank
	hip     bool                         // the user's list of GPUs is HIP_VISIBLE_DEVICES
	slurm   *slurm                       // nil outside Slurm
	conf    []map[string]nccl.Assignment // entries of configuration files, by node
	names   [][]string                   // names in file order, by node
	roles   map[string]int               // number of ranks by role
	inRole  []int                        // by rank: its number in its role
	ordered []bool                       // by node: the user set the numbering of GPUs
	rdma    bool                         // caches overHosts while rules apply
	stated  []Export                     // what gorun gives each rank itself
	errs    []error
}

func newBuilder(in Inputs) *builder {
	b := &builder{
		in: &in, index: make(map[string]int, len(in.Inherited)+len(rules())),
		perNode: make([]int, len(in.Nodes)), onNode: make([]nodeVariables, len(in.Nodes)),
	}
	b.out.Common = make([]Variable, 0, len(in.Inherited)+len(rules()))
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

// put sets a variable for all ranks.
func (b *builder) put(v Variable) {
	if i, ok := b.index[v.Name]; ok {
		b.out.Common[i] = v
		return
	}
	b.index[v.Name] = len(b.out.Common)
	b.out.Common = append(b.out.Common, v)
}

func (b *builder) has(name string) bool {
	_, ok := b.index[name]
	return ok
}

// drop removes a variable from all ranks and returns it, or the zero value.
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

// ofNode returns a lookup function for the variables shared by all ranks on the rank's node, as far as they are set
// yet.
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

// inherit passes on the launcher's environment without identities, and each node's own variables.
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

// inheritors returns the nodes that inherit the launcher's whole environment (here) or part of it (away), and whether
// these are all nodes.
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

// inheritOwn adds the variables that a node's ranks inherit from the node itself.
func (b *builder) inheritOwn(node int, n Node) {
	own, reason := n.Environ, "set on the node"
	switch {
	case n.Joined:
	case n.Remote:
		own, reason = b.in.ofHost(own), "set on that host"
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

// remove records a removal, once for each name. An empty reason records nothing.
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

// removalReason explains why ranks do not inherit a variable.
func (b *builder) removalReason(r *rule) string {
	switch {
	case r.Class == ClassRequest && b.nested:
		return "an outer launcher's store"
	case r.Class == ClassRequest:
		return "" // the store already listens there
	case r.Name == env.VarJob, r.Name == env.VarJobEngine:
		return "" // ranks get it, in VarJob with this job's ID appended
	case r.MPI && !b.applies(r):
		return "an outer launcher's; ranks of this job get none (--mpi)"
	case r.Source == slurmSource && r.value != nil && b.slurm == nil:
		return "Slurm's, and some ranks are outside its job"
	case r.Source == slurmSource && r.value != nil:
		return "describes the script or step that gorun runs in; ranks get their own values"
	case r.value != nil:
		return "an outer launcher's; every rank gets its own"
	case r.ofOuter:
		return "an outer launcher's"
	}
	return r.Reason
}

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

// named returns the variables that an export selects; those to remove have no origin. A pattern skips identities,
// which no user means to export.
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
		b.note("%s: no variable on this host matches, so ranks get none", e)
	default:
		b.note("%s: the variable is not set on this host, so ranks do not get it", e)
	}
	return all
}

// exported gives ranks an exported variable, except a store request: ranks get the address of the store itself.
func (b *builder) exported(v Variable) {
	if r := ruleFor(v.Name); r == nil || r.Class != ClassRequest {
		b.putEverywhere(v)
	}
	b.restore(v.Name)
}

// restore withdraws the removal of an exported variable.
func (b *builder) restore(name string) {
	b.out.Withheld = slices.DeleteFunc(b.out.Withheld, func(n string) bool { return n == name })
	for i, r := range b.out.Removed {
		if r.Name == name {
			b.out.Removed = slices.Delete(b.out.Removed, i, i+1)
			return
		}
	}
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
		return "number of the rank on its node; its GPU is device 0"
	}
	return "number of the rank on its node"
}

func (b *builder) visibleReason(name string) string {
	_, rocr := b.in.Ranks[0].Visible[env.VarROCRVisibleDevices]
	switch {
	case b.in.VisibleWhy == "":
		return "the rank's only GPU (--virtual-local-rank)"
	case rocr && name != env.VarROCRVisibleDevices:
		return "counts the GPUs of ROCR_VISIBLE_DEVICES"
	}
	return b.in.VisibleWhy
}

// gpus returns a rank's list of visible GPUs for the named variable. A rank's only GPU goes into CUDA_VISIBLE_DEVICES,
// and also into HIP_VISIBLE_DEVICES if the user set that, because it takes precedence.
func (p view) gpus(name string) (string, bool) {
	if value, ok := p.own().Visible[name]; ok {
		return value, true
	}
	counts := name == env.VarCUDAVisibleDevices || name == env.VarHIPVisibleDevices && p.hip
	return p.own().Device, p.own().Device != "" && counts
}

func (p view) task() Task {
	if s := p.node().Task; s != nil {
		return *s
	}
	node := p.own().Node
	return Task{Group: node, NumGroups: len(p.in.Nodes), LocalRanks: p.perNode[node]}
}

func (p view) role() string { return cmp.Or(p.node().Role, p.in.Role, "default") }

// agentStore reports whether gorun serves the ranks' store. If rank 0 serves it, torchrun's variables would make rank
// 0 a client of its own store.
func (b *builder) agentStore() bool { return b.in.Store.Mode != StoreRank0 }

// attempts reports whether ranks get the number of the attempt.
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

// marker joins the outer job's marker, this job's ID and the node's part with colons.
func (p view) marker() string {
	parts := []string{p.outer, p.in.Job, p.node().Part}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ":")
}

func (p view) numThreads() int { return cmp.Or(p.own().Threads, p.node().Threads) }

// threadsReason explains the number of threads, in general terms if nodes differ.
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

// workingDir returns PWD for a rank whose directory the user chose. Shells and os.Getwd trust a PWD that fits, which
// keeps symbolic links in the path.
func (p view) workingDir() string {
	dir := p.own().Dir
	if dir == "" || path.IsAbs(dir) {
		return dir
	}
	own, _ := lookup(p.in.Inherited, "PWD")
	return only(path.IsAbs(own), path.Join(own, dir))
}
