package ssh_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/reach/remote"
	"gorun/launcher/internal/reach/ssh"
)

// A peer that sends endless data instead of SSH uses bounded memory, and counts as an unreachable host.
func TestPeerThatTalksForEver(t *testing.T) {
	for name, command := range map[string]string{
		"zeros":               "cat /dev/zero",
		"lines":               "yes",
		"lines of a banner":   "yes banner | tr -d '\\n'",
		"a large first piece": `sh -c "echo SSH-2.0-x; cat /dev/zero"`,
		"random pieces":       `sh -c "echo SSH-2.0-x; cat /dev/urandom"`,
		"errors":              "tr '\\\\0' '\\\\033' </dev/zero >&2",
	} {
		t.Run(name, func(t *testing.T) {
			config := filepath.Join(t.TempDir(), "config")
			require.NoError(t, os.WriteFile(config, []byte("Host node\n  HostName 127.0.0.1\n  ProxyCommand "+command+"\n"),
				0o600))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := client(t, ssh.Config{ConfigFile: config, Timeout: 2 * time.Second}).Dial(t.Context(),
				remote.Target{Name: "node"})
			runtime.ReadMemStats(&after)
			require.Error(t, err)
			require.Less(t, len(err.Error()), 16<<10)
			require.Negative(t, strings.IndexFunc(err.Error(), func(r rune) bool {
				return unicode.IsControl(r) && r != '\t'
			}), "%q", err)
			require.Less(t, int64(after.HeapInuse)-int64(before.HeapInuse), int64(64<<20))
		})
	}
}
