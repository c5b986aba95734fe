package process_test

import (
	"os"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/process/kernel"
)

// whatIAm is a rank that prints its CPU masks and its memory policy.
var whatIAm = process.Common{
	Path: "/bin/sh",
	Argv: []string{
		"sh", "-c",
		"grep -E 'pus_allowed_list|ems_allowed_list' /proc/self/status; head -1 /proc/self/numa_maps",
	},
}

func TestRanksAreBound(t *testing.T) {
	eachWay(t, func(t *testing.T, g group) {
		bound, free := piped(0), piped(1)
		bound.Binding = process.Binding{CPUs: []uint64{1}, Policy: kernel.PolicyPreferredMany, Nodes: []uint64{1}}
		require.NoError(t, g.Start(whatIAm, []process.Rank{bound, free}))
		g.await(bound)
		g.await(free)
		assert.Regexp(t, `Cpus_allowed_list:\t0\n`, string(g.story(0).out[1]))
		assert.Regexp(t, ` prefer( \(many\))?:0 `, string(g.story(0).out[1]))
		assert.Zero(t, g.story(0).unbound)
		if allowed, err := os.ReadFile("/proc/self/status"); assert.NoError(t, err) {
			mine := regexp.MustCompile(`Cpus_allowed_list:.*\n`).Find(allowed)
			assert.Contains(t, string(g.story(1).out[1]), string(mine), "the next rank of the same thread is not bound")
		}
		assert.Contains(t, string(g.story(1).out[1]), " default ")
	})
}

// An impossible binding is reported, and the rank still runs.
func TestRanksThatCannotBeBoundRun(t *testing.T) {
	eachWay(t, func(t *testing.T, g group) {
		r := piped(0)
		r.Binding = process.Binding{CPUs: []uint64{0, 0, 0, 1 << 63}, Policy: 77, Nodes: []uint64{1}}
		require.NoError(t, g.Start(whatIAm, []process.Rank{r}))
		g.await(r)
		assert.Equal(t, process.Status{}, g.story(0).status)
		assert.Equal(t, process.BindError{CPUs: syscall.EINVAL, Nodes: syscall.EINVAL}, g.story(0).unbound)
	})
}
