package wire

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/spec"
	"gorun/placement"
)

// BenchmarkStart encodes and decodes what passes before the first rank of a job runs.
func BenchmarkStart(b *testing.B) {
	machine, err := placement.Example("dgx-h100")
	require.NoError(b, err)
	hello := &Hello{Version: Version, CPUs: true, Topology: true, Programs: []spec.Command{{Name: "./trainer"}}, Ranks: 1}
	start := &Start{JobID: "job", Apps: []spec.App{{Path: "/bin/true", Argv: []string{"true"}}}, Window: 1 << 20}
	for i := range 60 {
		start.Common = append(start.Common, fmt.Sprintf("NAME_%d=value", i))
	}
	for rank := range 8 {
		start.Ranks = append(start.Ranks, Row{
			Process: spec.Process{Rank: rank, LocalRank: rank},
			Env:     []string{fmt.Sprint("RANK=", rank)},
		})
	}
	small := &Facts{Facts: spec.Facts{Host: "a", Programs: []spec.Program{{Path: "/bin/true"}}}, Version: Version}
	for _, m := range []struct {
		name       string
		sent, into Message
	}{
		{"hello", hello, &Hello{}},
		{"facts of a small node", small, &Facts{}},
		{"facts of a large node", &Facts{Facts: spec.Facts{Host: "a", Machine: machine}, Version: Version}, &Facts{}},
		{"start", start, &Start{}},
	} {
		b.Run(m.name, func(b *testing.B) {
			size := 0
			for b.Loop() {
				body := appendMessage(nil, m.sent)
				size = len(body)
				if err := readMessage(body, m.into); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
}
