package launcher

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/env/plan"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// Where NCCL falls back to sockets between hosts, the node is asked whether there is better; once.
func TestSocketsWhereThereIsBetter(t *testing.T) {
	h, far := growingHead(t)
	var said []string
	h.settings.notice = func(n Notice) string { said = append(said, n.Text); return "" }
	for i, n := range h.nodes {
		n.name = []string{"node1", "node2"}[i]
	}
	h.nccl.listen(h)
	line := []byte("n2:7:8 [0] NCCL INFO Using network Socket\n")
	h.nccl.heard(h.nodes[1], 1, 1, line)
	h.nccl.heard(h.nodes[1], 1, 2, line)
	require.NoError(t, h.nodes[1].link.Send(&wire.Kill{}))
	f, err := far[1].Read()
	require.NoError(t, err)
	assert.Equal(t, wire.TypeAdapters, f.Type)
	f, err = far[1].Read()
	require.NoError(t, err)
	assert.Equal(t, wire.TypeKill, f.Type, "nothing came between")

	h.nccl.adapters(h.nodes[0], wire.Adapters{})
	assert.Empty(t, said, "there is nothing better")
	h.nccl.adapters(h.nodes[1], wire.Adapters{RDMA: []string{"mlx5_0 (InfiniBand, 400 Gb/s)", "\x1bx", "c", "d", "e"}})
	h.nccl.adapters(h.nodes[1], wire.Adapters{RDMA: []string{"mlx5_0"}})
	assert.Equal(t, []string{
		`NCCL communicates by sockets on node2 although mlx5_0 (InfiniBand, 400 Gb/s), ^[x, c, d and 1 more is up there; ` +
			"-x NCCL_NET=IB has it fail and say why, -x NCCL_DEBUG_SUBSYS=INIT,NET what it found",
	}, said)
}

// What gorun named and NCCL does not use, something else has named.
func TestAnotherInterfaceThanGorunNamed(t *testing.T) {
	for _, tc := range []struct {
		name     string
		variable plan.Variable
		told     bool
	}{
		{"another", plan.Variable{Name: "NCCL_SOCKET_IFNAME", Value: "=eth0", Origin: plan.Gorun}, true},
		{"the same", plan.Variable{Name: "NCCL_SOCKET_IFNAME", Value: "=eth7", Origin: plan.Gorun}, false},
		{"the user's", plan.Variable{Name: "NCCL_SOCKET_IFNAME", Value: "=eth0", Origin: plan.Exported}, false},
		{"a pattern", plan.Variable{Name: "NCCL_SOCKET_IFNAME", Value: "eth", Origin: plan.Gorun}, false},
		{"none", plan.Variable{Name: "X"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, _ := growingHead(t)
			var said []string
			h.settings.notice = func(n Notice) string { said = append(said, n.Text); return "" }
			h.nodes[0].name = "node1"
			h.plan.Store(&job.Plan{Nodes: make([]job.Node, 2), Ranks: []job.Rank{{Env: []plan.Variable{tc.variable}}, {Rank: 1, Node: 1}}})
			h.nccl.listen(h)
			for range 2 {
				h.nccl.heard(h.nodes[0], 0, 1, []byte("n1:7:8 [0] NCCL INFO NET/Socket : Using [0]eth7:10.0.0.1<0>\n"))
			}
			if !tc.told {
				assert.Empty(t, said)
				return
			}
			assert.Equal(t, []string{"NCCL uses eth7 on node1, not eth0 by which the other hosts reach it: the program or an nccl.conf sets NCCL_SOCKET_IFNAME"}, said)
		})
	}
}
