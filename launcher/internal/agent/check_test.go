package agent

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/wire"
)

// A hostile head cannot make a node that joined start another interpreter than that of its own command line. An
// inspection runs Python to find its packages.
func TestNoHeadInspectsNodesThatJoined(t *testing.T) {
	dir := t.TempDir()
	python, traces := filepath.Join(dir, "python3"), filepath.Join(dir, "traces")
	require.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\necho $$ >"+traces+"\n"), 0o700))
	inspect := func(own *Joined) error {
		ours, theirs := net.Pipe()
		head, served := wire.NewLink(ours), make(chan error, 1)
		cfg := ownAgent(dir).cfg
		cfg.Joined = own
		go func() { served <- Serve(wire.NewLink(theirs), cfg) }()
		check := &wire.Check{Python: python, Environ: []string{"PATH=" + dir}, Patience: time.Minute, Limit: time.Minute}
		_ = head.Send(check) // the agent rejects the frame by its header and does not read the rest
		for {
			f, err := head.Read()
			if err != nil || f.Type == wire.TypeChecked {
				_ = head.Close()
				return <-served
			}
		}
	}
	require.ErrorContains(t, inspect(ownAgent(dir).cfg.Joined),
		"a check frame, which a launcher may not send to a node that joined")
	require.NoFileExists(t, traces)
	require.Error(t, inspect(nil)) // the link has ended
	require.FileExists(t, traces, "the same question has another agent start it")
}
