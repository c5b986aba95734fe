package nccl

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// manySettings returns the settings that need the most comparisons.
func manySettings(n int) (all []Assignment) {
	for i := range n {
		all = append(all,
			Assignment{Name: "NCCL_MIN_CTAS", Value: fmt.Sprint(i)}, Assignment{Name: "NCCL_MAX_CTAS", Value: fmt.Sprint(n)},
			Assignment{Name: "NCCL_IB_DISABLE", Value: "1"},
			Assignment{Name: "NCCL_IB_TC", Value: "106", branch: fmt.Sprint("/", i)},
			Assignment{Name: fmt.Sprint("NCCL_OTHER_", i%100), Value: "1"})
	}
	return all
}

// Repeated names are compared with the known ones only once.
func TestNamesAreLookedUpOnce(t *testing.T) {
	l := linter{findings: make([][]Finding, 5*1000)}
	for i, a := range manySettings(1000) {
		l.one(i, a)
	}
	assert.Len(t, l.speller.answers, 100)
}

func BenchmarkLint(b *testing.B) {
	for _, n := range []int{200, 2000, 20000} {
		b.Run(fmt.Sprint("settings=", 5*n), func(b *testing.B) {
			settings := manySettings(n)
			for b.Loop() {
				Lint(settings, Found{})
			}
		})
	}
}
