package plan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"gorun/env/nccl"
	"gorun/placement"
)

// largeJob has eight ranks on each of many nodes, with GPUs, InfiniBand and a configuration file.
func largeJob(b testing.TB, nodes int) Inputs {
	b.Helper()
	m, err := placement.Example("dgx-h100")
	if err != nil {
		b.Fatal(err)
	}
	in := Inputs{RASAddr: "localhost:24001"}
	for i := range nodes {
		n := Node{
			Name:     fmt.Sprint("n", i),
			Endpoint: Endpoint{Address: fmt.Sprint("10.0.0.", i), Interface: fmt.Sprint("eth", i%2), Mbps: 100_000},
			GPUs:     m.GPUs,
			Host:     nccl.Host{GPUs: true, Library: "2.19.3", Shm: -1, Memlock: -1}, Remote: i > 0,
		}
		n.Host.Conf = []nccl.ConfFile{{Path: "/etc/nccl.conf", Text: fmt.Sprintf("NCCL_SOCKET_NTHREADS=4\nNCCL_IB_TC=%d\n",
			106*min(i, 1))}}
		for _, nic := range m.Topology.NICs {
			if nic.Port > 0 {
				nic.Bus = nil
				n.RDMA = append(n.RDMA, nic)
			}
		}
		n.RDMA[0].Kind, n.RDMA[0].Gbps, n.RDMA[0].GID = placement.RoCE, 25, 3
		in.Nodes = append(in.Nodes, n)
		for local := range 8 {
			in.Ranks = append(in.Ranks, Rank{Node: i, LocalRank: local})
		}
	}
	return in
}

// A rule that depends on the whole job looks at all nodes, so Build calls it only once.
func TestTheJobIsAskedOnce(t *testing.T) {
	asked := map[string]int{}
	for _, r := range rules() {
		if r.level == "" {
			continue
		}
		assert.True(t, r.differs == wholeJob || r.differs == ofNode, "%s is of the job or of a node", r.Name)
		before := *r
		defer func() { *r = before }()
		if r.differs == wholeJob {
			r.value = func(p view) (string, bool) { asked[before.Name]++; return before.value(p) }
		}
	}
	in := largeJob(t, 5)
	in.Nodes[3].Joined, in.Nodes[3].Environ = true, []string{"NCCL_RAS_ADDR=localhost:1"}
	e := build(t, in)
	assert.Greater(t, len(asked), 4)
	for name, n := range asked {
		assert.Equal(t, 1, n, name)
	}
	for node, want := range map[int]string{2: "localhost:24001", 3: "localhost:1"} {
		v, _ := e.find(node, 8*node, "NCCL_RAS_ADDR")
		assert.Equal(t, want, v.Value)
	}
}

// The time per node does not grow with the size of the job.
func BenchmarkBuildNodes(b *testing.B) {
	for _, nodes := range []int{10, 100, 1000, 4000} {
		b.Run(fmt.Sprint("nodes=", nodes), func(b *testing.B) {
			in := largeJob(b, nodes)
			for b.Loop() {
				if _, err := Build(in); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*nodes), "µs/node")
		})
	}
}
