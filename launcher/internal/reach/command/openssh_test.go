package command_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/reach/command"
	"gorun/launcher/internal/reach/remote"
)

// A program called ssh gets a connection timeout. It gets none if the user's files or options set one, if other hosts
// are connected first, or if it is not OpenSSH.
func TestConnectTimeoutOfOpenSSH(t *testing.T) {
	const plain = "hostname 10.0.0.1\nport 22\nconnecttimeout none\n"
	for name, row := range map[string]struct {
		dump   string // output of ssh -G; "": it fails
		limit  time.Duration
		want   string
		target string
	}{
		"default":         {plain, 8 * time.Second, "-o ConnectTimeout=8 node1 LINE", "host 10.0.0.1 port 22"},
		"by the launcher": {plain, 0, "node1 LINE", "host 10.0.0.1 port 22"},
		"by the user": {
			"hostname 10.0.0.1\nport 22\nconnecttimeout 60\n", 8 * time.Second, "node1 LINE", "host 10.0.0.1 port 22",
		},
		"a jump host": {plain + "proxyjump gate\n", 8 * time.Second, "node1 LINE", "host 10.0.0.1 port 22"},
		"another ssh": {"", 8 * time.Second, "node1 LINE", ""},
	} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "ssh")
			script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = -G ] || { echo \"$@\"; exit; }\nprintf '%s'\n[ %d != 0 ]\n",
				row.dump, len(row.dump))
			require.NoError(t, os.WriteFile(program, []byte(script), 0o700))
			h, err := command.Dial([]string{program}, remote.Target{Name: "node1"}, os.Environ(), row.limit)
			require.NoError(t, err)
			t.Cleanup(func() { _ = h.Close() })
			p, err := h.Start(t.Context(), "LINE")
			require.NoError(t, err)
			out, err := io.ReadAll(p)
			require.NoError(t, err)
			require.NoError(t, p.Wait())
			require.Equal(t, row.want+"\n", string(out))
			require.Equal(t, row.target, h.(interface{ Target() string }).Target())
		})
	}
}
