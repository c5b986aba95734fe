package nccl

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// The number of comparisons grows about linearly with the number of settings.
func TestLintOfMany(t *testing.T) {
	looks := func(n int) int {
		l := linter{findings: make([][]Finding, 5*n)}
		l.combined(manySettings(n))
		return l.looks
	}
	once, twice := looks(200), looks(400)
	require.Greater(t, once, 200)
	assert.Less(t, twice, once*5/2)
}

// Repeated names are compared with the known ones only once.
func TestNamesAreLookedUpOnce(t *testing.T) {
	l := linter{findings: make([][]Finding, 5*1000)}
	for i, a := range manySettings(1000) {
		l.one(i, a)
	}
	assert.Len(t, l.speller.answers, 100)
}

// Linting all settings together has the same result as linting each pair.
func TestCombinedFindsAll(t *testing.T) {
	names := []string{
		"NCCL_IB_DISABLE", "NCCL_IB_TC", "NCCL_NET", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS",
		"NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD", "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS",
	}
	values := []string{"", "0", "1", "3", "7", "20", "-4", "IB", "Socket", "INFO"}
	branches := []string{"", "/1", "/1/2", "/3"}
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 500 {
		var settings []Assignment
		for range 12 {
			settings = append(settings, Assignment{
				Name: names[r.IntN(len(names))], Value: values[r.IntN(len(values))],
				Computed: r.IntN(5) == 0, branch: branches[r.IntN(len(branches))],
			})
		}
		l := linter{findings: make([][]Finding, len(settings))}
		l.combined(settings)
		got := map[int]string{}
		for at, found := range l.findings {
			for _, f := range found {
				got[at] = f.Text
			}
		}
		require.Equal(t, pairwise(settings), got, "%v", settings)
		found += len(got)
	}
	require.Greater(t, found, 100)
}

// pairwise applies each rule to each pair of settings.
func pairwise(settings []Assignment) map[int]string {
	noted := map[int]string{}
	for _, rule := range combinations() {
		for _, one := range settings {
			for i, with := range settings {
				if _, already := noted[i]; already || one.Name != rule.one || one.Computed || one.Value == "" ||
					with.Value == "" || with.Name == one.Name || !fits(rule.with, with.Name) || !with.within(one) {
					continue
				}
				if with.Name == "NCCL_IB_DISABLE" || rule.of != nil && !rule.of(one.Value) || rule.what != nil &&
					!rule.what(with.Value) || rule.holds != nil && !rule.holds(number(one.Value), number(with.Value)) {
					continue
				}
				noted[i] = fmt.Sprintf(rule.text, one.Name+"="+one.Value)
			}
		}
	}
	return noted
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
