package launcher

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/hosts"
	"gorun/launcher/internal/reach/join"
	"gorun/launcher/internal/reach/remote"
	"gorun/launcher/job"
)

// All unreachable hosts are in one report, regardless of their names and timeouts.
func TestMergeErrorsOfHosts(t *testing.T) {
	s := &session{}
	var errs []error
	for _, h := range []struct {
		name, target string
		after        time.Duration
	}{
		{"h1", "ann@h1:22 (10.0.0.1)", 15 * time.Second},
		{"h2", "ann@h2:22 (10.0.0.2)", 3 * time.Second},
		{"h3", "ann@h3:22 (10.0.0.3)", 0},
	} {
		s.nodes = append(s.nodes, &node{name: h.name, host: hosts.Host{Name: h.name}})
		errs = append(errs,
			reachError(&remote.Error{
				Step: remote.StepConnect, Text: "no route to " + h.target, Target: h.target,
				After: h.after,
			}))
	}
	assert.EqualError(t, flatten(s.joinErrors(errs))[0], "h[1-3]: connect: no route to the host (after 15s)")
	assert.EqualError(t, flatten(s.joinErrors([]error{errs[0], nil, nil}))[0],
		"h1: connect: no route to ann@h1:22 (10.0.0.1) (after 15s)")
}

// The option is the user's own, and node 0 of a step of Slurm learns from srun alone that another node has failed.
func TestMessagesOfANodeThatCannotJoin(t *testing.T) {
	for from, want := range map[string]string{
		"--nnodes 2, --rdzv_endpoint n1:7": "--rdzv-endpoint ADDR:7", "--nnodes 2, --master-addr n1": "",
	} {
		s := newSession(Spec{Join: &job.JoinSpec{From: from, Port: 7, EngineSignals: true}}, Options{})
		cfg, err := s.joinConfig()
		require.NoError(t, err)
		assert.Equal(t, want, cfg.AddrOption)
		refused, _ := errors.AsType[*Error](s.joinError(errors.New("refused")))
		assert.Equal(t, "start the step with `srun --kill-on-bad-exit`, so that a node that fails ends the others",
			refused.Hint)
		s.listener = &join.Head{}
		here, _ := errors.AsType[*Error](s.joinError(errors.New("not all nodes joined")))
		assert.Empty(t, here.Hint)
	}
}
