package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"gorun/launcher/internal/spec"
)

// manyWarnings returns more warnings than a report has room for.
func manyWarnings() *NCCL {
	n := &NCCL{}
	for i := range 64 {
		n.Warnings = append(n.Warnings, spec.NCCLWarning{
			Text:  fmt.Sprintf("%d %s", i, strings.Repeat("z", 1000)),
			Ranks: []int{i, 400}, Times: 2,
		})
	}
	return n
}

func TestReportOfNCCLsWarnings(t *testing.T) {
	r := Result{
		Cause: CauseRank, ExitCode: 1, First: &Failure{
			RankEnd:   RankEnd{Rank: 5, PID: 7, Code: 1},
			LastLines: []string{"a", "NCCL WARN mine alone", "b"},
		},
		NCCL: &NCCL{Warnings: []spec.NCCLWarning{
			{Text: "first", Ranks: []int{0, 1, 2}},
			{Text: "mine alone", Ranks: []int{5}},
			{Text: "second", Ranks: []int{3}},
			{Text: "third", Ranks: []int{4}},
			{Text: "of all", Ranks: []int{3, 5}},
		}},
	}
	assert.Equal(t, `gorun: the program failed: exit code 1 (pid 7, after 0s)
  last     │ a
           │ NCCL WARN mine alone
           │ b
  nccl     [0-2]×3 │ NCCL WARN first
           [3]×1 │ NCCL WARN second
           [3,5]×2 │ NCCL WARN of all
`, r.Report(name, false), "the first two, and the first of the rank that failed that is not shown already")

	r = Result{Cause: CauseTimeout, ExitCode: 124, NCCL: &NCCL{Warnings: []spec.NCCLWarning{{Text: "x", Ranks: []int{0}}}}}
	assert.Equal(t,
		"gorun: timed out after 0s (--timeout)\n  nccl     [0]×1 │ NCCL WARN x\nexit 124\n",
		r.Report(name, false))
	assert.Equal(t, "[0-7]×8", CountedRanges([]int{0, 1, 2, 3, 4, 5, 6, 7}))
}
