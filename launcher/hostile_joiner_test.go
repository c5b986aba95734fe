package launcher

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/reach/join"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/rendezvous/world"
)

// A node that joins a job can run nothing on node 0, whose ranks are real in this test.
func TestHostileJoiner(t *testing.T) {
	token := job.Token{1, 2, 3}
	for name, c := range map[string]struct {
		text, want string
		secret     []byte
		insecure   bool
	}{
		"without a token": {"", "without a token", nil, true},
		"the same user":   {"", "no host can take more ranks", nil, false},
		"with the token":  {token.Text(), "no host can take more ranks", token[:], false},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			require.NoError(t, err)
			port := l.Addr().(*net.TCPAddr).Port
			require.NoError(t, l.Close())
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			over := make(chan error, 1)
			go func() {
				_, err := Run(ctx, Spec{
					Apps: []job.App{{Program: "sleep", Args: []string{"60"}}}, PerNode: job.Count{Kind: job.CountFixed, N: 1},
					Grace: time.Second, MPIRequested: true,
					Join: &job.JoinSpec{
						NodeRank: 0, NumNodes: 2, Addr: "127.0.0.1", Port: port, Token: c.text,
						Insecure: c.insecure,
					}, Output: job.OutputSpec{LogDir: os.DevNull},
				}, Options{Stdout: io.Discard, Stderr: io.Discard})
				over <- err
			}()
			self := join.Hello{NumNodes: 2, NodeRank: 1, Host: "elsewhere"}
			_, joined, err := join.Connect(ctx, join.Config{
				Addr: "127.0.0.1", Port: port, Secret: c.secret, Self: self,
				Insecure: c.insecure,
			})
			require.NoError(t, err)
			file := filepath.Join(t.TempDir(), "touched")
			host, err := os.Hostname()
			require.NoError(t, err)
			a := &fakeAgent{
				madeUp: sleeper(wire.NewLink(joined.Conn), 1), stream: joined.Conn, attack: atStart,
				job:      &fakeJob{ended: make(chan struct{})},
				received: map[wire.Type]int{},
				spawns: func(s *wire.Start) world.Spawn {
					edit := spawnOn(1, host)(s)
					edit.Apps[0].Args = []string{file}
					return edit
				},
			}
			a.at, a.answered = netip.MustParseAddr("127.0.0.1"), cancel
			a.serve()
			require.NoError(t, <-over)
			require.NotNil(t, a.spawned)
			require.NoFileExists(t, file)
			require.Contains(t, a.spawned.Error, c.want)
		})
	}
}
