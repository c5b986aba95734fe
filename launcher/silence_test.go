package launcher

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/launcher/record"
	"gorun/launcher/registry"
)

// A rank computes for 12 minutes while that on the other node waits in the store.
func TestSilence(t *testing.T) {
	for _, c := range []struct {
		limit  time.Duration
		onHang job.OnHang
		want   []string
		hangs  bool
	}{
		{0, job.HangStop, []string{
			"nothing was printed and nothing happens for 19m50s: rank 0 sleeps, rank 1 waits in the store; `gorun stacks` " +
				"shows where, `--hang-timeout 19m50s` ends such a job",
		}, false},
		{8 * time.Minute, job.HangStop, []string{
			"nothing was printed for 8m, but this is no hang: rank 0 computes (50 % CPU), rank 1 waits in the store; " +
				"`gorun stacks` shows where, `--on-hang stop-busy` ends such a job",
		}, true},
		{8 * time.Minute, job.HangStopBusy, nil, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, far := growingHead(t)
			h.inspected = make(chan answer[wire.Hung], len(h.nodes))
			h.spec = Spec{SuspectAfter: 8 * time.Minute, HangTimeout: c.limit, OnHang: c.onHang}
			var notes []string
			h.settings.Notices = func(n Notice) string {
				if h.hang.Load() == nil { // else it is about the end
					notes = append(notes, n.Text)
				}
				return ""
			}
			var suspicions []string
			h.settings.Events = func(e record.Event) {
				if e.Event == record.HangSuspected {
					suspicions = append(suspicions, e.Text)
				}
			}
			var kept []string
			h.settings.Evidence = func() func(registry.File) {
				return func(f registry.File) {
					if f.Name != "nccl.txt" { // with a monitor alone
						kept = append(kept, f.Name)
					}
				}
			}
			began := time.Now()
			for i, link := range far {
				go func() {
					for f, err := link.Read(); err == nil; f, err = link.Read() {
						var q wire.Usage
						_ = f.Decode(&q)
						rank := wire.RankUsage{Activity: spec.Activity{Rank: i, PID: 10 + i, State: "sleeping"}}
						if i == 0 {
							rank.CPUTime = min(time.Since(began), 12*time.Minute) / 2
						} else {
							rank.Keys = []string{"key"}
						}
						m := wire.Used{Call: q.Call, At: time.Now(), Ranks: []wire.RankUsage{rank}}
						if q.Evidence > 0 {
							m.Evidence = []wire.File{{Name: "../kernel-log.txt"}, {Name: wire.DumpName + "1"}}
						}
						h.queries.receive(h.nodes[i], m)
					}
				}()
			}
			h.watchHang()
			time.Sleep(25 * time.Minute)
			close(h.over)
			h.stopTimers()
			synctest.Wait()
			assert.Equal(t, c.want, notes)
			assert.Equal(t, c.hangs, h.hang.Load() != nil)
			if c.limit == 0 {
				assert.Equal(t, []string{
					"rank 0 sleeps, rank 1 waits in the store; rank 0: sleeping; rank 1: waiting in the store",
				}, suspicions)
			}
			assert.Equal(t, []string{
				"plan.json", "last-lines.txt", "n0-kernel-log.txt", "n1-kernel-log.txt", "nccl_trace_rank_1", "stacks.txt", "",
			}, kept)
			for _, n := range h.nodes {
				require.NoError(t, n.link.Close())
			}
		})
	}
}
