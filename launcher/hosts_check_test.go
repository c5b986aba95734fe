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
func check(t *testing.T, s launcher.Spec, options ...option) *doctor.Cluster {
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
	require.Len(t, report.Reached, 3)
	require.Len(t, report.Hosts, 2)
	for i, h := range report.Hosts {
		assert.True(t, report.Reached[i].OK, h.Name)
		require.NotNil(t, h.Clock, h.Name)
		assert.Less(t, h.Clock.Ahead-h.Clock.Uncertainty, 0.5, "it is the same clock")
		assert.Positive(t, h.Machine.CPUs.Len())
		assert.Contains(t, h.Limits, "memlock")
		assert.NotEmpty(t, h.Kernel)
		require.NotNil(t, h.Program)
		assert.Equal(t, program, h.Program.Path)
		assert.Equal(t, int64(10), h.Program.Size)
		assert.Equal(t, "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf", h.Program.SHA256)
	}
	assert.False(t, report.Reached[2].OK)
	assert.Contains(t, report.Found,
		doctor.Finding{Check: doctor.Reach, Severity: doctor.Error, Hosts: []string{"gone"}, Text: "it is gone"})
	require.NotNil(t, report.Network)
	paths := 0
	for _, p := range report.Network.Paths {
		if p.Aside { // another address of the same host
			continue
		}
		paths++
		assert.Empty(t, p.Problem)
		assert.Empty(t, p.Trouble)
		assert.Positive(t, p.Seconds)
		assert.Positive(t, p.BitsPerSecond)
		assert.Positive(t, p.Segments)
	}
	assert.Equal(t, 2, paths)
	assert.NotEmpty(t, report.Network.Transfers)
	assert.NotEmpty(t, report.Network.Address)
}

func TestCheckWithSilentHost(t *testing.T) {
	report := check(t, onHosts(launcher.Spec{}, "node1", "mute"), launcher.WithAskLimit(2*time.Second))
	require.Len(t, report.Found, 1)
	assert.Equal(t, []string{"mute"}, report.Found[0].Hosts)
	assert.Contains(t, report.Found[0].Text, "it did not report what it has within 2s")
	assert.NotEmpty(t, report.Reached[0].Host.Kernel, "the other one is looked at all the same")
	assert.Nil(t, report.Reached[0].Host.Program)
	assert.Nil(t, report.Reached[1].Host)
	assert.Nil(t, report.Network)
}

func TestMissingThingsAreProblems(t *testing.T) {
	s := onHosts(launcher.Spec{Dir: "/no/such/directory", Apps: []job.App{{Program: "/no/such/program"}}}, "node1",
		"node2")
	report := check(t, s)
	var texts []string
	for _, f := range doctor.Diagnose(report, doctor.Start...) {
		texts = append(texts, f.Where()+": "+f.Text)
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
	check(t, onHosts(launcher.Spec{}, "node1", "gone"), withProgress(func(p *launcher.Progress) func() {
		progress = p
		for _, h := range p.Hosts() {
			assert.Equal(t, "waiting", h.Step)
		}
		return func() { ended = true }
	}))
	require.True(t, ended)
	list := progress.Hosts()
	require.Len(t, list, 2)
	assert.Equal(t, []any{"node1", "ready", true, true, false},
		[]any{list[0].Name, list[0].Step, list[0].Reached, list[0].Ready, list[0].Failed})
	assert.True(t, list[1].Failed)
}
