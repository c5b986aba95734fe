package launcher

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// Queries of an attempt that has ended go on while nodes get their numbers in the next one.
func TestQueryOfAnAttemptThatHasEnded(t *testing.T) {
	h, _ := growingHead(t)
	answers := make(chan answer[wire.Used], len(h.nodes))
	for i, n := range h.nodes {
		n.number = 2 - i
		answers <- answer[wire.Used]{n, wire.Used{Ranks: []wire.RankUsage{{Activity: spec.Activity{Rank: i}}}}}
	}
	list, silent := collect(t.Context(), h, answers)
	assert.Empty(t, silent)
	assert.Len(t, h.usages(list), 2)
	metrics{}.addNodes(h, list)
}

// What is not known is left out.
func TestExposedNodes(t *testing.T) {
	h := &head{nodes: []*node{{number: 0}, {number: 1}}}
	h.plan.Store(&job.Plan{Nodes: []job.Node{{Name: "n1"}, {Name: `a\b`}}})
	m := metrics{}
	m.addNodes(h, []answer[wire.Used]{{h.nodes[1], wire.Used{Network: 1 << 40, GPUs: []wire.GPUUse{
		{
			PCI: "0000:1b:00.0", Busy: new(97), Memory: new(int64(7 << 30)), Power: new(412_345), Temperature: new(61),
			Slowed: true,
		},
		{PCI: "0000:43:00.0"},
	}}}})
	const gpu = `{node="1",host="a\\b",gpu="0000:1b:00.0"} `
	assert.Equal(t, `# TYPE gorun_node_up gauge
# HELP gorun_node_up 1 if the node answered this scrape.
gorun_node_up{node="0",host="n1"} 0
gorun_node_up{node="1",host="a\\b"} 1
# TYPE gorun_node_network_bytes counter
# UNIT gorun_node_network_bytes bytes
# HELP gorun_node_network_bytes What passed through the host's network interfaces, with loopback and InfiniBand.
gorun_node_network_bytes_total{node="1",host="a\\b"} 1099511627776
# TYPE gorun_gpu_utilization_ratio gauge
# UNIT gorun_gpu_utilization_ratio ratio
# HELP gorun_gpu_utilization_ratio Share of time in which a kernel ran.
gorun_gpu_utilization_ratio`+gpu+`0.97
# TYPE gorun_gpu_memory_used_bytes gauge
# UNIT gorun_gpu_memory_used_bytes bytes
# HELP gorun_gpu_memory_used_bytes Memory in use, also by other jobs.
gorun_gpu_memory_used_bytes`+gpu+`7516192768
# TYPE gorun_gpu_power_watts gauge
# UNIT gorun_gpu_power_watts watts
# HELP gorun_gpu_power_watts Power draw.
gorun_gpu_power_watts`+gpu+`412.345
# TYPE gorun_gpu_temperature_celsius gauge
# UNIT gorun_gpu_temperature_celsius celsius
# HELP gorun_gpu_temperature_celsius Temperature of the die.
gorun_gpu_temperature_celsius`+gpu+`61
# TYPE gorun_gpu_throttled gauge
# HELP gorun_gpu_throttled 1 while heat or a lack of power lowers the clocks.
gorun_gpu_throttled`+gpu+`1
gorun_gpu_throttled{node="1",host="a\\b",gpu="0000:43:00.0"} 0
# EOF
`, m.String())
}
