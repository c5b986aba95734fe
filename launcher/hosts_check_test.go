package launcher_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher"
	"gorun/launcher/doctor"
	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// check examines hosts whose agents are processes of the test binary. Hosts named "gone" are unreachable, and hosts
// named "mute" never answer.
func check(t *testing.T, s launcher.Spec, options ...option) *launcher.HostsReport {
	t.Helper()
	options = append(
		[]option{launcher.WithReach(func(_ context.Context, h hosts.Host) (io.ReadWriteCloser, error) {
			switch h.Name {
			case "gone":
				return nil, errors.New("it is gone")
			case "mute":
				r, w := io.Pipe()
				return mute{r, w}, nil
			}
			return startAgent(nil, h)
		})}, options...)
	report, err := launcher.CheckHosts(t.Context(), s, with(options...))
	require.NoError(t, err)
	return report
}

// mute is an agent that reads everything and sends nothing.
type mute struct {
	io.ReadCloser
	w io.Closer
}

func (mute) Write(p []byte) (int, error) { return len(p), nil }

func (m mute) Close() error {
	_ = m.w.Close()
	return m.ReadCloser.Close()
}

func TestHostsCheck(t *testing.T) {
	program := filepath.Join(t.TempDir(), "trainer")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700))
	s := onHosts(launcher.Spec{Apps: []job.App{{Program: program}}}, "node1", "node2", "gone")
	report := check(t, s)
	assert.False(t, report.OK())
	require.Len(t, report.Hosts, 3)
	for _, h := range report.Hosts[:2] {
		assert.True(t, h.Reached, h.Name)
		require.NotNil(t, h.Clock, h.Name)
		assert.Less(t, h.Clock.Ahead-h.Clock.Uncertainty, 0.5, "it is the same clock")
		assert.Positive(t, h.CPUs)
		assert.Len(t, h.Limits, 3)
		assert.NotEmpty(t, h.Kernel)
		require.NotNil(t, h.Program)
		assert.Equal(t, program, h.Program.Path)
		assert.Equal(t, int64(10), h.Program.Size)
		assert.Equal(t, "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf", h.Program.SHA256)
	}
	gone := report.Hosts[2]
	assert.False(t, gone.Reached)
	assert.Contains(t, report.Problems, doctor.Problem{Hosts: []string{"gone"}, Text: "it is gone"})
	require.NotNil(t, report.Network)
	ways := 0
	for _, w := range report.Network.Ways {
		if w.Aside { // another address of the same host
			continue
		}
		ways++
		assert.Empty(t, w.Problem)
		assert.Empty(t, w.Trouble)
		assert.Positive(t, w.Seconds)
		assert.Positive(t, w.BitsPerSecond)
		assert.Positive(t, w.Segments)
	}
	assert.Equal(t, 2, ways)
	assert.NotEmpty(t, report.Network.Transfers)
	assert.NotEmpty(t, report.Network.Address)
}

func TestCheckWithSilentHost(t *testing.T) {
	report := check(t, onHosts(launcher.Spec{}, "node1", "mute"), launcher.WithAskLimit(2*time.Second))
	assert.False(t, report.OK())
	require.NotEmpty(t, report.Problems)
	assert.Equal(t, []string{"mute"}, report.Problems[0].Hosts)
	assert.Contains(t, report.Problems[0].Text, "it did not report what it has within 2s")
	assert.NotEmpty(t, report.Hosts[0].Kernel, "the other one is looked at all the same")
	assert.Nil(t, report.Hosts[0].Program)
}

func TestMissingThingsAreProblems(t *testing.T) {
	s := onHosts(launcher.Spec{Dir: "/no/such/directory", Apps: []job.App{{Program: "/no/such/program"}}}, "node1",
		"node2")
	report := check(t, s)
	var texts []string
	for _, p := range report.Problems {
		texts = append(texts, p.String())
	}
	assert.Contains(t, texts, "node[1-2]: the working directory /no/such/directory: no such file or directory")
}

func TestCheckWithoutHosts(t *testing.T) {
	_, err := launcher.CheckHosts(t.Context(), launcher.Spec{}, launcher.Options{})
	require.ErrorContains(t, err, "no hosts")
}

func TestProgress(t *testing.T) {
	var progress *launcher.Progress
	ended := false
	report := check(t, onHosts(launcher.Spec{}, "node1", "gone"), withProgress(func(p *launcher.Progress) func() {
		progress = p
		for _, h := range p.Hosts() {
			assert.Equal(t, "waiting", h.Step)
		}
		return func() { ended = true }
	}))
	assert.False(t, report.OK())
	require.True(t, ended)
	list := progress.Hosts()
	require.Len(t, list, 2)
	assert.Equal(t, []any{"node1", "ready", true, true, false},
		[]any{list[0].Name, list[0].Step, list[0].Reached, list[0].Ready, list[0].Failed})
	assert.True(t, list[1].Failed)
}
