package pmi

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

// beginsMPI makes a shell begin MPI like a client, and waits for replies.
const beginsMPI = "echo cmd=init pmi_version=1 pmi_subversion=1 >&3; read -r answer <&3; echo cmd=get_appnum >&3; " +
	"read -r answer <&3; "

// A process inherits a socket and begins MPI. The server refuses it while its parent is in MPI, and accepts it
// afterwards.
func TestASecondProcessBegins(t *testing.T) {
	for name, of := range map[string]struct {
		script string
		broken bool
	}{
		"beside the first":     {beginsMPI + "sh -c '" + beginsMPI + "'; exit 0", true},
		"instead of the first": {beginsMPI + "exec sh -c '" + beginsMPI + "'", false},
		"when the first is done": {
			beginsMPI + "echo cmd=finalize >&3; read -r answer <&3; sh -c '" + beginsMPI + "'; exit 0", false,
		},
		"when the first is ended": {"sh -c '" + beginsMPI + "'; " + beginsMPI, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1, 0)
			w := c.add(newWorld("w", 0, 0))
			server, file := socketPair(t)
			c.serving.Go(func() { c.servers[0].Serve(server, world.Proc{World: w.Name}) })
			rank := exec.Command("sh", "-c", of.script)
			rank.ExtraFiles = append(rank.ExtraFiles, file)
			require.NoError(t, rank.Start())
			require.NoError(t, file.Close())
			_ = rank.Wait() // its write to a closed connection fails
			c.serving.Wait()
			if of.broken {
				c.log.await(t, "while process")
			} else {
				require.NotContains(t, strings.Join(c.log.all(), "\n"), "broken")
				c.log.await(t, "left w.0")
			}
		})
	}
}

// The server cannot identify the process of a TCP connection.
func TestSenderOfOtherConnections(t *testing.T) {
	one, two := net.Pipe()
	defer func() { _, _ = one.Close(), two.Close() }()
	require.Nil(t, newSenderReader(one))
	require.Zero(t, senderOf([]byte("nonsense")))
	require.False(t, isRunning(1<<30))
}
