package plan

import (
	"cmp"
	"fmt"

	"gorun/placement"
)

// shmPerRank is about what NCCL takes of /dev/shm for a rank.
const shmPerRank = 32 << 20 // bytes

// memlockEnough is what an RDMA program locks at least.
const memlockEnough = 1 << 20 // bytes

// warn remarks on hosts on which NCCL will fail or be slow, where no setting helps.
func (b *builder) warn() {
	if b.in.Tune == TuneTextbook {
		b.note("--tune textbook sets what teaching texts recommend, for study: gorun env --tune textbook says of each what is wrong with it")
	}
	for i := range b.in.Nodes {
		if n := &b.in.Nodes[i]; n.Host.GPUs && b.perNode[i] > 0 {
			b.warnOfRDMA(n)
			b.warnOfHost(n, b.perNode[i])
		}
	}
}

// warnOfRDMA remarks on adapters that ranks cannot use.
func (b *builder) warnOfRDMA(n *Node) {
	active, _ := n.ports()
	if len(active) == 0 || !b.overHosts() || b.said("NCCL_IB_DISABLE", "1") {
		return
	}
	what := cmp.Or(active[0].Name, "an RDMA adapter")
	switch {
	case n.Host.NoVerbs:
		b.note("%s has %s, which ranks cannot use (%s), so that NCCL goes by TCP, many times slower: a container needs --device=/dev/infiniband; -x NCCL_IB_DISABLE=1 says that TCP is meant", n.Name, what, n.Host.NoVerbsWhy)
	case n.Host.Memlock >= 0 && n.Host.Memlock < memlockEnough && active[0].Kind != placement.EFA:
		b.note("%s has %s, but ranks may lock only %d KiB of memory there, and NCCL fails: raise memlock in /etc/security/limits.conf, a container needs --ulimit memlock=-1", n.Name, what, n.Host.Memlock>>10)
	}
}

// warnOfHost remarks on limits.
func (b *builder) warnOfHost(n *Node, ranks int) {
	if n.Host.Shm >= 0 && n.Host.Container != "" && ranks > 1 && n.Host.Shm < shmPerRank*int64(ranks) {
		b.note("%s/dev/shm has %d MiB, and NCCL may need %d for %d ranks: a container needs --shm-size=1g or --ipc=host", b.onHost(n), n.Host.Shm>>20, shmPerRank>>20*ranks, ranks)
	}
	if n.Host.EndlessStack && n.ncclBefore(2, 28, 0) {
		b.note("%sthe stack is unlimited, with which NCCL %s may crash: ulimit -s 8192 before gorun", b.onHost(n), n.Host.Library)
	}
}

// onHost begins a remark with the host where there are several.
func (b *builder) onHost(n *Node) string {
	if len(b.in.Nodes) == 1 || n.Name == "" {
		return ""
	}
	return fmt.Sprintf("%s: ", n.Name)
}
