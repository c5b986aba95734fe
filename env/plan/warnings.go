package plan

import (
	"cmp"
	"fmt"
	"slices"

	"gorun/placement"
)

// shmPerRank is roughly what NCCL uses of /dev/shm for each rank.
const shmPerRank = 32 << 20 // bytes

// memlockEnough is the least memory that an RDMA program locks.
const memlockEnough = 1 << 20 // bytes

// warn adds notes about hosts on which NCCL will fail or be slow and no setting helps.
func (b *builder) warn() {
	if b.in.Tune == TuneTextbook {
		b.note("--tune textbook sets what teaching texts recommend, for study: each setting has a flaw")
	}
	b.rdma = b.overHosts()
	notes := nodeNotes{}
	for i := range b.in.Nodes {
		n := &b.in.Nodes[i]
		if !n.Host.GPUs || b.perNode[i] == 0 {
			continue
		}
		for _, text := range slices.Concat(b.rdmaWarnings(n), hostWarnings(n, b.perNode[i])) {
			notes.add(text, b.nodeName(i))
		}
	}
	for _, text := range notes.texts {
		if len(b.in.Nodes) > 1 {
			text = b.joinNodes(notes.on[text]) + ": " + text
		}
		b.out.Notes = append(b.out.Notes, text)
	}
}

// nodeNotes collects texts in the order of their first occurrence, with the nodes that each applies to.
type nodeNotes struct {
	texts []string
	on    map[string][]string // names of nodes, each once
	seen  map[[2]string]bool
}

func (r *nodeNotes) add(text, node string) {
	if r.on == nil {
		r.on, r.seen = map[string][]string{}, map[[2]string]bool{}
	}
	if key := [2]string{text, node}; !r.seen[key] { // several nodes may be of one host
		r.seen[key] = true
		if r.on[text] == nil {
			r.texts = append(r.texts, text)
		}
		r.on[text] = append(r.on[text], node)
	}
}

func (b *builder) nodeName(node int) string {
	return cmp.Or(b.in.Nodes[node].Name, fmt.Sprint("node ", node))
}

func (b *builder) rdmaWarnings(n *Node) []string {
	active, _ := n.ports()
	if len(active) == 0 || !b.rdma {
		return nil
	}
	switch {
	case n.Host.NoVerbs:
		return []string{fmt.Sprintf("ranks cannot use %s, as %s, so NCCL uses TCP, many times slower: start "+
			"containers with --device=/dev/infiniband, or choose TCP with `-x NCCL_IB_DISABLE=1`", adapter(active[0]),
			n.Host.NoVerbsWhy)}
	case n.Host.Memlock >= 0 && n.Host.Memlock < memlockEnough:
		return []string{fmt.Sprintf("ranks may lock only %d KiB of memory, too little for NCCL over %s: raise memlock in "+
			"/etc/security/limits.conf, or start containers with --ulimit memlock=-1", n.Host.Memlock>>10, adapter(active[0]))}
	}
	return nil
}

// adapter formats a port for a message: "InfiniBand (mlx5_0)".
func adapter(p placement.NIC) string {
	if p.Kind == placement.RoCE {
		return "RDMA over Ethernet (" + p.Name + ")"
	}
	return "InfiniBand (" + p.Name + ")"
}

func hostWarnings(n *Node, ranks int) (texts []string) {
	if n.Host.Shm >= 0 && n.Host.Container != "" && ranks > 1 && n.Host.Shm < shmPerRank*int64(ranks) {
		texts = append(texts,
			fmt.Sprintf(
				"/dev/shm has %d MiB, and NCCL may need %d MiB for %d ranks: start the container with --shm-size=%dg or --ipc=host",
				n.Host.Shm>>20, shmPerRank>>20*ranks, ranks, max(1, (shmPerRank*ranks+1<<30-1)>>30)))
	}
	if n.Host.EndlessStack && n.ncclBefore(2, 28, 0) {
		texts = append(texts,
			fmt.Sprintf("the stack is unlimited, so NCCL %s may crash: run `ulimit -s 8192` before gorun", n.Host.Library))
	}
	return texts
}
