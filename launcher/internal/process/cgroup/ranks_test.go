package cgroup_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/process/cgroup"
)

// deaf is a sink for those who look elsewhere.
type deaf struct{}

func (deaf) Started(int, int)                      {}
func (deaf) BindFailed(int, process.BindError)     {}
func (deaf) SocketReadable(int, int)               {}
func (deaf) Output(int, int, []byte)               {}
func (deaf) Closed(int, int)                       {}
func (deaf) Exited(int, process.Status, time.Time) {}

func TestRanksAreBornInside(t *testing.T) {
	cgroup.EachVersion(t, func(t *testing.T, g *cgroup.Group) {
		ranks := process.NewGroup(deaf{})
		defer ranks.Close()
		sleep := process.Common{Path: "/bin/sleep", Argv: []string{"sleep", "600"}, Cgroup: g}
		require.NoError(t, ranks.Start(sleep, []process.Rank{{ID: 0}, {ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}}))
		assert.Len(t, g.Procs(), 5)
		assert.False(t, g.Has(os.Getpid()))
		assert.Len(t, process.Target{Cgroup: g}.KillAll(time.Minute), 0)
		assert.NoError(t, g.Remove(), "with zombies")
	})
}

// A group that was removed by somebody keeps no job from starting.
func TestRanksStartWithoutTheirGroup(t *testing.T) {
	cgroup.EachVersion(t, func(t *testing.T, g *cgroup.Group) {
		require.NoError(t, g.Remove())
		ranks := process.NewGroup(deaf{})
		defer ranks.Close()
		require.NoError(t, ranks.Start(process.Common{Path: "/bin/true", Argv: []string{"true"}, Cgroup: g},
			[]process.Rank{{ID: 0}, {ID: 1}}))
	})
}

// What has left both session and environment is found by the group alone.
func TestSweepFindsWhatOnlyTheGroupKnows(t *testing.T) {
	cgroup.EachVersion(t, func(t *testing.T, g *cgroup.Group) {
		ranks := process.NewGroup(deaf{})
		defer ranks.Close()
		script := process.Common{
			Path: "/bin/sh",
			Argv: []string{"sh", "-c", "setsid env -i sleep 600 & setsid env -i sleep 600 & exec sleep 600"}, Cgroup: g,
		}
		require.NoError(t, ranks.Start(script, []process.Rank{{ID: 0}}))
		bare := process.Target{Cgroup: cgroup.Open(g.Dir())}
		require.Eventually(t, func() bool {
			sleeping := 0
			found, err := bare.Find()
			for _, p := range found {
				if p.Name == "sleep" {
					sleeping++
				}
			}
			return err == nil && sleeping == 3
		}, time.Minute, time.Millisecond)
		assert.True(t, bare.Terminate(time.Minute))
	})
}
