package launcher

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/env/plan"
	"gorun/launcher/internal/spec"
	"gorun/launcher/job"
	"gorun/placement"
)

// A notice reports once that NCCL uses sockets between hosts that have a faster network.
func TestSocketsDespiteInfiniBand(t *testing.T) {
	infiniBand := placement.NIC{Name: "mlx5_0", Kind: placement.InfiniBand, Up: true, Gbps: 400}
	ports := []placement.NIC{
		infiniBand,
		{Name: "mlx5_1", Kind: placement.RoCE, Up: true},
		{Name: "mlx5_2", Kind: placement.InfiniBand, State: "INIT"},
		{Name: "rxe0", Kind: placement.Virtual, Up: true},
		{Name: "rdmap0", Kind: placement.EFA, Up: true}, // NCCL cannot use it without a plugin
		{Name: "\x1bx", Kind: placement.RoCE, Up: true},
		infiniBand, infiniBand,
	}
	const hint = " is up; add -x NCCL_NET=IB to see why, or -x NCCL_DEBUG_SUBSYS=INIT,NET to see what it found"
	for _, tc := range []struct {
		name    string
		ports   []placement.NIC
		env     []plan.Variable
		network string
		want    []string
	}{
		{"many", ports, nil, "Socket", []string{"NCCL uses sockets on node2 although mlx5_0 (InfiniBand, 400 " +
			"Gb/s), mlx5_1 (RoCE), ^[x (RoCE), mlx5_0 (InfiniBand, 400 Gb/s) and 1 more" + hint}},
		{"it is used", ports, nil, "IB", nil},
		{"nothing better", ports[2:5], nil, "Socket", nil},
		{"as the user wants it", ports, []plan.Variable{{Name: "NCCL_IB_DISABLE", Value: "1"}}, "Socket", nil},
		{"as the user says", ports, []plan.Variable{{Name: "NCCL_NET", Value: "socket"}}, "Socket", nil},
		{
			"not disabled", ports[:1],
			[]plan.Variable{{Name: "NCCL_IB_DISABLE", Value: "0"}},
			"Socket",
			[]string{"NCCL uses sockets on node2 although mlx5_0 (InfiniBand, 400 Gb/s)" + hint},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, _ := growingHead(t)
			var said []string
			h.settings.Notices = func(n Notice) string { said = append(said, n.Text); return "" }
			h.nodes[1].name, h.nodes[1].facts.RDMA = "node2", tc.ports
			h.plan.Store(&job.Plan{Nodes: make([]job.Node, 2), Ranks: []job.Rank{{}, {Process: spec.Process{
				Rank: 1,
				Node: 1,
			}, Env: tc.env}}})
			h.nccl.init(h)
			for stream := range 2 {
				h.nccl.observe(h.nodes[1], 1, 1+stream, []byte("n2:7:8 [0] NCCL INFO Using network "+tc.network+"\n"))
			}
			assert.Equal(t, tc.want, said)
		})
	}
}

// If NCCL does not use the interface that gorun set, something else has set another one.
func TestUnexpectedInterface(t *testing.T) {
	for _, tc := range []struct {
		name     string
		variable plan.Variable
		notices  bool
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
			h.settings.Notices = func(n Notice) string { said = append(said, n.Text); return "" }
			h.nodes[0].name = "node1"
			h.plan.Store(&job.Plan{
				Nodes: make([]job.Node, 2),
				Ranks: []job.Rank{{Env: []plan.Variable{tc.variable}}, {Process: spec.Process{Rank: 1, Node: 1}}},
			})
			h.nccl.init(h)
			for range 2 {
				h.nccl.observe(h.nodes[0], 0, 1, []byte("n1:7:8 [0] NCCL INFO NET/Socket : Using [0]eth7:10.0.0.1<0>\n"))
			}
			if !tc.notices {
				assert.Empty(t, said)
				return
			}
			assert.Equal(t, []string{"NCCL uses eth7 on node1, not eth0, which the other hosts reach it on: the program or an " +
				"nccl.conf sets NCCL_SOCKET_IFNAME"}, said)
		})
	}
}

// If a small communicator connects before a large one exists, the notice waits for the large one and describes it.
func TestSecondCommunicator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := growingHead(t)
		var details []string
		h.settings.Notices = func(n Notice) string { details = append(details, n.Text); return "" }
		h.nccl.init(h)
		say := func(rank int, text string) {
			h.nccl.observe(h.nodes[rank], rank, 1, []byte("n:7:8 [0] NCCL INFO "+text+"\n"))
		}
		up := func(rank, size int) {
			say(rank, fmt.Sprintf("ncclCommInitRank comm 0x55 rank 0 nranks %d cudaDev 0 nvmlDev 0 busId 1 commId 0x1 - Init "+
				"COMPLETE", size))
		}
		say(0, "NCCL version 2.30.7+cuda13.3")
		up(0, 1)
		up(1, 2)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, details)
		say(1, "Connected all rings")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, details, 1)
	})
}
