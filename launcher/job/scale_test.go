package job

import (
	"fmt"
	"testing"

	"gorun/env/plan"
	"gorun/placement"
)

// BenchmarkPlan10000Nodes plans 80,000 ranks, with the topology of the nodes and without.
func BenchmarkPlan10000Nodes(b *testing.B) {
	machine, err := placement.Example("dgx-h100")
	if err != nil {
		b.Fatal(err)
	}
	bare := placement.Machine{CPUs: machine.CPUs}
	for name, m := range map[string]placement.Machine{"machine": machine, "cpus": bare} {
		b.Run(name, func(b *testing.B) {
			spec, facts := manyNodes(10_000, m)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NewPlan(spec, facts, testIDs,
					Opened{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// manyNodes returns a spec for eight ranks on each of many nodes.
func manyNodes(n int, m placement.Machine) (*Spec, []Facts) {
	spec := &Spec{Apps: []App{{Program: "./trainer"}}, PerNode: Count{Kind: CountFixed, N: 8}}
	for i := range 50 {
		spec.Environ = append(spec.Environ, fmt.Sprintf("NCCL_%d=x", i), fmt.Sprintf("MINE_%d=x", i))
	}
	facts := make([]Facts, n)
	for i := range facts {
		facts[i] = Facts{
			Facts: NodeFacts{
				Host: fmt.Sprint("node", i), Machine: m, TempDir: "/tmp",
				Programs: []Program{{Path: "/bin/trainer", Argv: []string{"./trainer"}, ScriptArg: 1}},
				Environ:  []string{"HOME=/root", "USER=root", "SHELL=/bin/sh"},
			},
			Remote:   i > 0,
			Endpoint: plan.Endpoint{Address: "10.0.0.1", Interface: "eth0"},
		}
	}
	return spec, facts
}
