package agent

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/launcher/internal/ras"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

func TestWhereNCCLListens(t *testing.T) {
	j := func(common []string, rows ...wire.Row) *job {
		r := &job{start: wire.Start{Common: common}}
		r.roster.Store(&roster{rows: rows})
		return r
	}
	for name, tc := range map[string]struct {
		job  *job
		addr string
		own  bool
	}{
		"nowhere else": {j(nil, wire.Row{}), ras.DefaultAddr, false},
		"of the job":   {j([]string{"NCCL_RAS_ADDR=localhost:7"}, wire.Row{}), "localhost:7", true},
		"of the rank": {
			j([]string{"NCCL_RAS_ADDR=localhost:7"}, wire.Row{Env: []string{"NCCL_RAS_ADDR=localhost:8"}}), "localhost:8", true,
		},
		"off":                {j([]string{"NCCL_RAS_ENABLE=0", "NCCL_RAS_ADDR=localhost:7"}, wire.Row{}), "", false},
		"a node of no ranks": {j([]string{"NCCL_RAS_ADDR=localhost:7"}), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			addr, own := tc.job.rasAddr()
			assert.Equal(t, tc.addr, addr)
			assert.Equal(t, tc.own, own)
		})
	}
}

// A process in a rank's session belongs to that rank. A process of another host does not, even if its pid is the
// same.
func TestWorldRankOfAProcess(t *testing.T) {
	child := exec.Command("cat") // the tests' own session may have begun outside of this PID namespace
	child.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = child.Wait()
	})
	pid := child.Process.Pid
	r := &rank{row: wire.Row{Process: spec.Process{Rank: 5}}}
	r.pid.Store(int32(pid))
	j := &job{}
	j.roster.Store(&roster{rows: []wire.Row{r.row}, ranks: map[int]*rank{5: r}})
	world := j.worldRank()
	assert.Equal(t, 5, world(&ras.Rank{Host: "127.0.0.1", PID: pid}))
	assert.Equal(t, -1, world(&ras.Rank{Host: "192.0.2.1", PID: pid}))
	assert.Equal(t, -1, world(&ras.Rank{Host: "nonsense", PID: pid}))
	assert.Equal(t, -1, world(&ras.Rank{Host: "127.0.0.1", PID: 1 << 30}))
}
