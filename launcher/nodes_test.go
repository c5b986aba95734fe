package launcher_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/env"
	"gorun/launcher"
	"gorun/launcher/hosts"
)

// agentRole makes the test binary an agent.
const agentRole = "agent"

// agentProcess is an agent on this host that speaks over pipes.
type agentProcess struct {
	io.WriteCloser
	io.Reader
	cmd *exec.Cmd
}

func (p *agentProcess) Close() error {
	_ = p.WriteCloser.Close()
	return p.cmd.Wait()
}

// agents starts one for each host, and keeps their processes.
func agents(t *testing.T, started map[string]*agentProcess) launcher.Option {
	self, err := os.Executable()
	require.NoError(t, err)
	lock := make(chan struct{}, 1)
	return launcher.WithReach(func(_ context.Context, h hosts.Host) (io.ReadWriteCloser, error) {
		cmd := exec.Command(self)
		cmd.Env = withRole(os.Environ(), agentRole)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		p := &agentProcess{in, out, cmd}
		lock <- struct{}{}
		defer func() { <-lock }()
		if started != nil {
			started[h.Name] = p
		}
		return p, cmd.Start()
	})
}

func onHosts(s launcher.Spec, names ...string) launcher.Spec {
	for _, name := range names {
		s.Hosts = append(s.Hosts, hosts.Host{Name: name, Slots: 2, From: "-H " + name})
	}
	return s
}

func TestSeveralNodes(t *testing.T) {
	s := onHosts(spec("place", 2), "node1", "node2", "node3")
	result, out, errs := run(t, s, agents(t, nil))
	require.Zero(t, result.ExitCode, "%s\n%s", errs, launcher.Explain(result))
	var want []string
	for rank := range 6 {
		want = append(want, fmt.Sprintf("rank %d of 6, local rank %d of 2 on node %d of 3", rank, rank%2, rank/2))
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(got)
	assert.Equal(t, want, got)
}

func init() {
	roles["place"] = func(r env.Rank) {
		fmt.Printf("rank %d of %d, local rank %d of %d on node %d of %d\n", r.Rank, r.WorldSize, r.LocalRank, r.LocalWorldSize, r.Node, r.NumNodes)
	}
}
