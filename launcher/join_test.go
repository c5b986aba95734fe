package launcher_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher"
	"gorun/launcher/job"
)

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) int {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// part is the outcome of one node in a job of nodes that joined.
type part struct {
	result      *launcher.Result
	err         error
	out, notice buffer
}

// together runs a job of nodes that join each other in this process, and returns the outcome of each. The callback
// changes a node's spec.
func together(t *testing.T, role string, nodes int, edit func(node int, s *launcher.Spec)) []*part {
	port := freePort(t)
	parts := make([]*part, nodes)
	var all sync.WaitGroup
	for node := range nodes {
		p := &part{}
		parts[node] = p
		s := own(t, specOf(role, 2))
		s.Grace = time.Second
		s.Join = &job.JoinSpec{NodeRank: node, NumNodes: nodes, Addr: "127.0.0.1", Port: port, Timeout: time.Minute}
		if edit != nil {
			edit(node, &s)
		}
		all.Go(func() {
			tell := func(n launcher.Notice) string {
				if n.Detail {
					return ""
				}
				return n.Text
			}
			p.result, p.err = launcher.Run(t.Context(), s, with(withOutput(&p.out, &p.notice), withNotices(tell)))
		})
	}
	all.Wait()
	return parts
}

func TestJoin(t *testing.T) {
	token := job.Token{1, 2, 3}
	for name, edit := range map[string]func(j *job.JoinSpec){
		"one user on one host": func(*job.JoinSpec) {},
		"insecure":             func(j *job.JoinSpec) { j.Insecure = true },
		"token":                func(j *job.JoinSpec) { j.Token = token.Text() },
		"own token":            func(j *job.JoinSpec) { j.OwnToken, j.Insecure = token.Text(), true },
	} {
		parts := together(t, "place", 3, func(_ int, s *launcher.Spec) { edit(s.Join) })
		for node, p := range parts {
			require.NoError(t, p.err, "node %d", node)
			require.Zero(t, p.result.ExitCode, "node %d: %s", node, p.notice.String())
			assert.Equal(t, name == "insecure", strings.Contains(p.notice.String(), "without a token"), "%s: node %d", name,
				node)
		}
		lines := strings.Split(strings.TrimSpace(parts[0].out.String()), "\n")
		slices.Sort(lines)
		require.Len(t, lines, 6, "node 0 shows what all ranks print")
		for rank, line := range lines {
			assert.Equal(t, fmt.Sprintf("rank %d of 6, local rank %d of 2 on node %d of 3", rank, rank%2, rank/2), line)
		}
	}
}

// Nodes on several hosts need a token.
func TestJoinWithoutSecret(t *testing.T) {
	for _, p := range together(t, "place", 2, func(_ int, s *launcher.Spec) { s.Join.Addr = "192.0.2.1" }) {
		var refused *launcher.Error
		require.ErrorAs(t, p.err, &refused)
		assert.Equal(t, job.ExitUsage, refused.Code)
		assert.Contains(t, refused.Text, ": no token: anyone who reaches that port")
		assert.Contains(t, refused.Hint, "gorun token --save")
	}
}

func TestFailureEndsJoinedNodes(t *testing.T) {
	parts := together(t, "fail", 2, nil)
	for node, p := range parts {
		require.NoError(t, p.err)
		assert.Equal(t, 17, p.result.ExitCode, "node %d", node)
	}
	assert.Contains(t, launcher.Explain(parts[1].result), "says: rank 1 failed first")
}

// Each node writes the error file that its own torchrun would write. A node without a failure of its own reports node
// 0's.
func TestErrorFilesOfJoinedNodes(t *testing.T) {
	raised := `{"message":{"errorCode":17,"message":"ValueError: boom"}}`
	for rank, want := range map[string][2]string{"1": {raised, "says: rank 1 failed first"}, "3": {raised, raised}} {
		parts := together(t, "raise", 2, func(_ int, s *launcher.Spec) { s.Apps[0].Args = []string{rank} })
		for node, p := range parts {
			require.NoError(t, p.err)
			assert.Contains(t, string(launcher.ErrorFile(p.result)), want[node], "rank %s, node %d", rank, node)
		}
	}
}

// Ranks of nodes with different roles have role ranks as with torchrun.
func TestRolesOfJoinedNodes(t *testing.T) {
	parts := together(t, "role", 3, func(node int, s *launcher.Spec) {
		s.Role = []string{"trainer", "", "trainer"}[node]
		s.PerNode.N = node + 1
		s.Output.Tee = job.StreamMap{All: 1}
		s.Output.LogDir = t.TempDir()
	})
	require.NoError(t, parts[0].err)
	lines := strings.Split(strings.TrimSpace(parts[0].out.String()), "\n")
	slices.Sort(lines)
	assert.Equal(t, []string{
		"[default0]:1 is 0 of 2 of default", "[default1]:2 is 1 of 2 of default", "[trainer0]:0 is 0 of 4 of trainer",
		"[trainer0]:3 is 1 of 4 of trainer", "[trainer1]:4 is 2 of 4 of trainer", "[trainer2]:5 is 3 of 4 of trainer",
	}, lines)
}

func TestJoinedNodeRunsItsCommandLine(t *testing.T) {
	parts := together(t, "bytes", 2, func(node int, s *launcher.Spec) {
		s.PerNode.N = node + 1
		s.Apps[0].Args = []string{fmt.Sprintf("argument of node %d", node)}
		s.Environ = append(s.Environ, fmt.Sprintf("LAUNCHER_TEST_BYTES=variable of node %d", node))
	})
	require.NoError(t, parts[0].err)
	out := parts[0].out.String()
	assert.Equal(t, 1, strings.Count(out, `["argument of node 0"] "variable of node 0"`), out)
	assert.Equal(t, 2, strings.Count(out, `["argument of node 1"] "variable of node 1"`), out)
}

func TestRestartOfJoinedNodes(t *testing.T) {
	parts := together(t, "flaky", 2, func(_ int, s *launcher.Spec) { s.Restarts = job.Restarts{Max: 2, Delay: -1} })
	for _, p := range parts {
		require.NoError(t, p.err)
		require.Zero(t, p.result.ExitCode, p.notice.String())
	}
	for rank := range 4 {
		assert.Contains(t, parts[0].out.String(), fmt.Sprintf("attempt 2: rank %d, found false\n", rank))
	}
}

func TestJoinConflicts(t *testing.T) {
	parts := together(t, "place", 2, func(node int, s *launcher.Spec) {
		s.Join.NumNodes, s.Join.Timeout = 2+node, 2*time.Second
	})
	require.ErrorContains(t, parts[1].err, "it expects 3 nodes, node 0")
	require.ErrorContains(t, parts[0].err, "1 of 2")
}
