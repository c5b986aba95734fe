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

// received reports each write to a host.
type received struct {
	io.ReadWriteCloser
	writes chan struct{}
}

func (h received) Write(p []byte) (int, error) {
	select {
	case h.writes <- struct{}{}:
	default:
	}
	return h.ReadWriteCloser.Write(p)
}

// A connected host gets heartbeats while the launcher is still connecting to others. Without them its lease would
// expire.
func TestHeartbeatsWhileOthersAreReached(t *testing.T) {
	writes := make(chan struct{}, 1)
	reach := launcher.WithReach(func(ctx context.Context, h hosts.Host) (io.ReadWriteCloser, error) {
		if h.Name == "late" {
			for range 4 { // the first write is not a heartbeat
				select {
				case <-writes:
				case <-ctx.Done():
					return nil, errors.New("the other host receives nothing")
				}
			}
			return nil, errors.New("it is gone")
		}
		conn, err := startAgent(nil, h)
		return received{conn, writes}, err
	})
	s := onHosts(launcher.Spec{Heartbeat: 200 * time.Millisecond}, "node1", "late")
	c, err := launcher.Examine(t.Context(), s, with(reach))
	require.NoError(t, err)
	require.Len(t, c.Found, 1)
	assert.Equal(t, "it is gone", c.Found[0].Text)
	require.Len(t, c.Hosts, 1)
}

// Examine returns facts of all hosts that answer, even if others fail.
func TestExamine(t *testing.T) {
	program := filepath.Join(t.TempDir(), "trainer")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700))
	reach := launcher.WithReach(func(_ context.Context, h hosts.Host) (io.ReadWriteCloser, error) {
		switch h.Name {
		case "gone":
			return nil, errors.New("it is gone")
		case "mute":
			r, w := io.Pipe()
			return mute{r, w}, nil
		}
		return startAgent(nil, h)
	})
	s := onHosts(launcher.Spec{Apps: []job.App{{Program: program}}}, "node1", "gone", "node2", "mute")
	c, err := launcher.Examine(t.Context(), s, with(reach, launcher.WithAskLimit(6*time.Second)))
	require.NoError(t, err)
	assert.Equal(t, 4, c.Asked)
	assert.Equal(t, program, c.Program)
	require.Len(t, c.Hosts, 2)
	for i, name := range []string{"node1", "node2"} {
		h := c.Hosts[i]
		assert.Equal(t, name, h.Name)
		assert.False(t, h.Here)
		assert.NotEmpty(t, h.Kernel)
		assert.NotEmpty(t, h.Boot)
		assert.NotNil(t, h.Shm)
		assert.NotNil(t, h.Clock)
		assert.Contains(t, h.Limits, "memlock")
		assert.Equal(t, &doctor.Program{
			Kind: h.Program.Kind, Path: program, Size: 10,
			SHA256: "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf",
		}, h.Program)
	}
	found := map[string]doctor.Finding{}
	for _, f := range doctor.Diagnose(c) {
		found[f.Check+" "+f.Where()] = f
	}
	assert.Equal(t, "it is gone", found["reach gone"].Text)
	assert.Contains(t, found["reach mute"].Text, "it did not report what it has within")
	assert.Contains(t, found, "same-machine node[1-2]")
	assert.NotContains(t, found, "program-differs node1")
	assert.NotEmpty(t, c.Network.Summary)
}

// Without a host list, Examine inspects the local host.
func TestExamineThisHost(t *testing.T) {
	c, err := launcher.Examine(t.Context(), launcher.Spec{Dir: "/no/such/directory"}, launcher.Options{})
	require.NoError(t, err)
	require.Len(t, c.Hosts, 1)
	h := c.Hosts[0]
	assert.True(t, h.Here)
	assert.Nil(t, h.Clock)
	assert.Equal(t, &doctor.Program{Dir: "/no/such/directory", NoDir: "no such file or directory"}, h.Program)
}

// Text from another host cannot control the terminal.
func TestPrintableJSON(t *testing.T) {
	clean := string(launcher.Cleaned([]byte(`{"a\u001b[2J":["\u001b[31mred",{"n":18446744073709551615}],"b":true}`)))
	assert.NotContains(t, clean, "u001b")
	assert.Contains(t, clean, "red")
	assert.Contains(t, clean, "18446744073709551615")
	assert.Equal(t, "not JSON", string(launcher.Cleaned([]byte("not JSON"))))
}
