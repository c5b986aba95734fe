package plan

import "slices"

// nodeVariables are the variables that the ranks of one node share besides those of all ranks. A linear search
// is fast enough: there are few, or about a hundred with a node's whole environment.
type nodeVariables []Variable

func (n nodeVariables) find(name string) int {
	return slices.IndexFunc(n, func(v Variable) bool { return v.Name == name })
}

// put adds or replaces a variable.
func (n *nodeVariables) put(v Variable) {
	if i := n.find(v.Name); i >= 0 {
		(*n)[i] = v
		return
	}
	*n = append(*n, v)
}

// drop removes a variable and returns it, or the zero value.
func (n *nodeVariables) drop(name string) Variable {
	i := n.find(name)
	if i < 0 {
		return Variable{}
	}
	v := (*n)[i]
	*n = slices.Delete(*n, i, i+1)
	return v
}

// putOn sets a variable for some nodes.
func (b *builder) putOn(nodes []int, v Variable) {
	for _, node := range nodes {
		b.onNode[node].put(v)
	}
}

// putEverywhere sets a variable for all ranks. It overrides the nodes' values.
func (b *builder) putEverywhere(v Variable) {
	for node := range b.onNode {
		b.onNode[node].drop(v.Name)
	}
	b.put(v)
}

// scope is the set of ranks that share a rule's value.
type scope uint8

const (
	ofJob    scope = iota // all ranks of the job
	ofWorld               // the ranks of an MPI_COMM_WORLD
	ofNode                // the ranks of a node, or of a world on it
	ofRank                // each rank has its own value
	wholeJob              // all ranks; the value depends on all nodes, so it is computed once
)

// setting is a rule that applies to the job. It caches what all ranks share.
type setting struct {
	*rule
	reason string
	before taken
}

// taken is a variable that was removed from all ranks, or from the ranks of some nodes.
type taken struct {
	common Variable
	onNode map[int]Variable
}

// of returns the previous variable of a node's ranks, or the zero value.
func (t taken) of(node int) Variable {
	if v, has := t.onNode[node]; has {
		return v
	}
	return t.common
}

// take removes a variable from all ranks.
func (b *builder) take(name string) taken {
	t := taken{common: b.drop(name)}
	for node := range b.onNode {
		if v := b.onNode[node].drop(name); v.Name != "" {
			if t.onNode == nil {
				t.onNode = map[int]Variable{}
			}
			t.onNode[node] = v
		}
	}
	return t
}

// set adds the variables that gorun sets.
func (b *builder) set() {
	b.out.Ranks = make([][]Variable, len(b.in.Ranks))
	b.findOrder()
	b.rdma = b.overHosts()
	var varying []setting
	for _, r := range rules() {
		if r.value == nil || b.userWins(r) && b.has(r.Name) || !b.applies(r) || r.level != "" && !b.tunes(r) {
			continue
		}
		if r.differs == wholeJob {
			b.setJobWide(r)
			continue
		}
		switch b.scope(r) {
		case ofJob:
			if value, ok := b.value(r, 0); ok {
				b.putEverywhere(b.asRequested(r, r.variable(b.reasonForAll(r), value)))
			}
		case ofNode:
			b.setNodes(r)
		case ofRank:
			varying = append(varying, setting{rule: r, reason: b.reason(r)})
		}
	}
	b.setEach(varying)
}

// setJobWide sets a value that depends on the whole job for all ranks. It keeps the settings of users on their
// nodes.
func (b *builder) setJobWide(r *rule) {
	const first = 0 // the result is the same for any rank
	if b.inConf(r, first) {
		return
	}
	value, ok := r.value(view{b, first})
	if !ok {
		return
	}
	v := r.variable(b.reason(r), value)
	if !slices.ContainsFunc(b.onNode, func(own nodeVariables) bool { return own.find(r.Name) >= 0 }) {
		b.put(v)
		return
	}
	for node, rank := range b.first {
		if rank >= 0 && b.onNode[node].find(r.Name) < 0 {
			b.onNode[node].put(v)
		}
	}
}

// applies reports whether a rule applies to this job.
func (b *builder) applies(r *rule) bool {
	return (r.when == nil || r.when(b)) && (b.slurm != nil || r.Source != slurmSource)
}

// userWins reports whether the user's value takes precedence.
func (b *builder) userWins(r *rule) bool { return r.Class == ClassSetting && !r.chosen }

// value returns the value of a rule for a rank. It keeps a setting of the user on the rank's node.
func (b *builder) value(r *rule, rank int) (string, bool) {
	if node := b.in.Ranks[rank].Node; b.userWins(r) && len(b.onNode[node]) > 0 && b.onNode[node].find(r.Name) >= 0 {
		return "", false
	}
	if b.inConf(r, rank) {
		return "", false
	}
	return r.value(view{b, rank})
}

// scope returns the set of ranks that share a rule's value.
func (b *builder) scope(r *rule) scope {
	switch worlds := len(b.in.MPI.Worlds) > 1; {
	case r.differs == ofRank || worlds && r.differs != ofJob:
		return b.scopeByRanks(r)
	case r.differs == ofNode || b.userWins(r):
		return b.scopeByNodes(r)
	}
	return ofJob
}

// scopeByNodes is scope for rules with one value for each node.
func (b *builder) scopeByNodes(r *rule) scope {
	value, ok := b.value(r, 0)
	for _, rank := range b.first {
		if rank < 0 {
			continue
		}
		if v, set := b.value(r, rank); v != value || set != ok {
			return ofNode
		}
	}
	return ofJob
}

func (b *builder) scopeByRanks(r *rule) scope {
	found := ofJob
	value, ok := b.value(r, 0)
	for rank := range b.in.Ranks {
		v, set := b.value(r, rank)
		if v == value && set == ok {
			continue
		}
		if found = ofNode; len(b.in.Nodes) == 1 {
			return ofRank
		}
		first, has := b.value(r, b.first[b.in.Ranks[rank].Node])
		if v != first || set != has {
			return ofRank
		}
	}
	return found
}

func (b *builder) reason(r *rule) string {
	if r.why != nil {
		return r.why(b)
	}
	return r.Reason
}

// reasonFor returns the reason for the ranks on a rank's node.
func (b *builder) reasonFor(r *rule, rank int) string {
	if r.whyOf != nil {
		return r.whyOf(view{b, rank})
	}
	return b.reason(r)
}

// reasonForAll returns the reason for a value that all ranks share: the reason of their nodes if it is the
// same.
func (b *builder) reasonForAll(r *rule) string {
	reason := b.reasonFor(r, 0)
	for _, rank := range b.first {
		if rank >= 0 && b.reasonFor(r, rank) != reason {
			return b.reason(r)
		}
	}
	return reason
}

func (r *rule) variable(reason, value string) Variable {
	return Variable{Name: r.Name, Value: value, Origin: Gorun, Reason: reason, Level: r.level}
}

// setNodes sets the values that the ranks of each node share.
func (b *builder) setNodes(r *rule) {
	before := b.drop(r.Name)
	for node, rank := range b.first {
		if rank < 0 {
			continue
		}
		if value, ok := b.value(r, rank); ok {
			b.onNode[node].put(r.variable(b.reasonFor(r, rank), value))
		} else if before.Name != "" && b.onNode[node].find(r.Name) < 0 {
			b.onNode[node].put(before)
		}
	}
}

// setEach sets the values of individual ranks. One array backs all rows.
func (b *builder) setEach(varying []setting) {
	for i := range varying { // ranks to which the rule does not apply keep their inherited values
		varying[i].before = b.take(varying[i].Name)
	}
	all := make([]Variable, 0, len(varying)*len(b.in.Ranks))
	for rank := range b.in.Ranks {
		begin := len(all)
		for _, s := range varying {
			if v := b.own(s, rank); v.Name != "" {
				all = append(all, v)
			}
		}
		b.out.Ranks[rank] = all[begin:len(all):len(all)]
	}
}

// own returns the variable of one rank, or the zero value.
func (b *builder) own(s setting, rank int) Variable {
	node := b.in.Ranks[rank].Node
	if _, inherits := s.before.onNode[node]; !inherits || !b.userWins(s.rule) {
		if value, ok := s.value(view{b, rank}); ok {
			return s.variable(s.reason, value)
		}
	}
	return s.before.of(node)
}

// finish moves the nodes' variables into the result. With one node, all ranks share them.
func (b *builder) finish() {
	switch {
	case len(b.onNode) == 1:
		for _, v := range b.onNode[0] {
			b.put(v)
		}
	case slices.ContainsFunc(b.onNode, func(n nodeVariables) bool { return len(n) > 0 }):
		b.out.Nodes = make([][]Variable, len(b.onNode))
		for node, list := range b.onNode {
			b.out.Nodes[node] = list
		}
	}
}
