package launcher

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/reach"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// joinPlane gives an agent its end of an attempt's exchange plane.
func (a *simAgent) joinPlane(attempt int) {
	if a.sim.joined == nil {
		return
	}
	a.plane.Store(exchange.NewNode(a.index, func(m *exchange.Message) error {
		return a.link.Send(&wire.Exchange{Attempt: attempt, Message: *m})
	}))
	a.attempt.Store(int32(attempt))
	a.sim.joined <- attempt
}

// exchange handles a message from the launcher on the plane.
func (a *simAgent) exchange(f wire.Frame) error {
	var m wire.Exchange
	if err := f.Decode(&m); err != nil {
		return err
	}
	if plane := a.plane.Load(); plane != nil && m.Attempt == int(a.attempt.Load()) {
		plane.Receive(&m.Message)
	}
	return nil
}

// awaitPlanes waits until all agents have joined the plane of one attempt.
func (s *simulation) awaitPlanes(tb testing.TB) {
	for range s.agents {
		select {
		case <-s.joined:
		case <-tb.Context().Done():
			return
		}
	}
}

// ranksBlob returns a node's contribution to a fence: each rank's number and as many bytes.
func ranksBlob(node, bytes int) []byte {
	var b []byte
	for local := range simRanks {
		b = binary.LittleEndian.AppendUint32(b, uint32(node*simRanks+local))
		b = append(b, make([]byte, bytes)...)
	}
	return b
}

// fence makes the ranks of all agents reach a fence and verifies the result.
func (s *simulation) fence(id string, blobs [][]byte) error {
	nodes := make([]int, len(s.agents))
	for i := range nodes {
		nodes[i] = i
	}
	done := make(chan error, len(nodes))
	for node, a := range s.agents {
		a.plane.Load().Fence(exchange.Fence{ID: id, Nodes: nodes, Blob: blobs[node]}, func(got [][]byte, err error) {
			if err == nil && !slices.EqualFunc(got, blobs, func(a, b []byte) bool { return string(a) == string(b) }) {
				err = fmt.Errorf("node %d got other blobs than were brought", node)
			}
			done <- err
		})
	}
	for range nodes {
		if err := <-done; err != nil {
			return err
		}
	}
	return nil
}

func blobsOf(nodes, bytes int) [][]byte {
	blobs := make([][]byte, nodes)
	for i := range blobs {
		blobs[i] = ranksBlob(i, bytes)
	}
	return blobs
}

// All nodes of a job reach fences and see each other's names, before and after a restart. Nothing of the first
// attempt remains then.
func TestExchangeOverNodes(t *testing.T) {
	nodes := testneeds.Count(50, 1000)
	s := newSimulation(t, nodes, time.Millisecond)
	s.joined = make(chan int, nodes)
	blobs := blobsOf(nodes, 100)
	problems := make(chan error, 10)
	attempt := func() {
		s.awaitPlanes(t)
		problems <- s.fence("first", blobs)
		problems <- s.fence("second", blobs)
		publisher, seeker := s.agents[1].plane.Load(), s.agents[nodes-1].plane.Load()
		published := exchange.Name{Space: "pmi", Name: "ocean", Value: []byte("port")}
		publisher.Publish([]exchange.Name{published}, func(err error) { problems <- err })
		found := make(chan []exchange.Name)
		seeker.Lookup(exchange.Query{Spaces: []string{"pmi"}, Names: []string{"ocean"}, Need: 1, Wait: -1},
			func(n []exchange.Name, err error) {
				problems <- err
				found <- n
			})
		assert.Equal(t, []exchange.Name{published}, <-found)
	}
	go func() {
		attempt()
		s.agents[0].fail(7)
		attempt()
		s.finish()
	}()
	spec := s.spec()
	spec.Restarts = job.Restarts{Max: 1, Delay: -1}
	result := s.run(t, spec, Options{})
	assert.Zero(t, result.ExitCode, Explain(result))
	require.Len(t, problems, 8)
	for range 8 {
		require.NoError(t, <-problems)
	}
}

// All ranks of a node may end before ranks of another node initialize MPI and wait for them.
func TestSimulatedNodeEndsBeforeFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 2, time.Millisecond)
		s.joined = make(chan int, 2)
		go func() {
			s.awaitPlanes(t)
			_ = s.agents[1].end(0)
			time.Sleep(time.Second) // virtual time: the launcher has received the end of the node
			a := s.agents[0]
			fence := exchange.Fence{
				ID: "init", Nodes: []int{0, 1},
				Members: []world.Proc{{World: a.worlds[0].Name, Rank: world.AllRanks}},
			}
			a.plane.Load().Fence(fence, func(_ [][]byte, err error) {
				var left *exchange.ExitedError
				if assert.ErrorAs(t, err, &left) {
					_ = a.link.Send(&wire.MPIEvent{
						Stuck: &spec.MPIStuck{Missing: left.Missing.Rank, Waiting: []int{0}},
						At:    time.Now(),
					})
				}
			})
		}()
		spec := s.spec()
		spec.Timeout = time.Minute
		result := s.run(t, spec, Options{})
		assert.Equal(t, job.CauseStuck, result.Cause, Explain(result))
		assert.Equal(t,
			fmt.Sprintf("rank 0 waits in MPI_Init for rank %d, which has ended (exit code 0) without calling it", simRanks),
			result.Text)
	})
}

// counted counts the bytes of a connection.
type counted struct {
	net.Conn
	bytes *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

// reachBySockets connects the launcher with an agent over TCP at 127.0.0.1.
func (s *simulation) reachBySockets(ctx context.Context, listener net.Listener, bytes *atomic.Int64,
	h hosts.Host,
) (io.ReadWriteCloser, error) {
	var index int
	if _, err := fmt.Sscanf(h.Name, "node%d", &index); err != nil {
		return nil, err
	}
	s.dialing.Lock() // pairs each accepted connection with the dialed one
	defer s.dialing.Unlock()
	var dialer net.Dialer
	ours, err := dialer.DialContext(ctx, "tcp", listener.Addr().String())
	if err != nil {
		return nil, err
	}
	theirs, err := listener.Accept()
	if err != nil {
		return nil, err
	}
	a := s.agents[index]
	a.link = wire.NewLink(reach.Queued(counted{theirs, bytes}))
	s.over.Go(a.serve)
	return counted{ours, bytes}, nil
}

// BenchmarkFenceOverNodes measures a fence of 8 ranks with 100 bytes each on every node. It measures from the arrival
// of all ranks until all nodes have all data. Launcher and agents are goroutines of one process, connected over TCP.
func BenchmarkFenceOverNodes(b *testing.B) {
	for _, nodes := range []int{2, 16, 64} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) { benchmarkFence(b, nodes, 100) })
	}
}

func benchmarkFence(b *testing.B, nodes, bytesPerRank int) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer listener.Close()
	s := newSimulation(b, nodes, time.Millisecond) // sockets ignore the delay
	s.joined = make(chan int, nodes)
	blobs := blobsOf(nodes, bytesPerRank)
	var bytes atomic.Int64
	var took []time.Duration
	failed := make(chan error, 1)
	go func() {
		s.awaitPlanes(b)
		err := s.fence("warm", blobs)
		before := bytes.Load()
		for b.Loop() {
			if begin := time.Now(); err == nil {
				err = s.fence("fence", blobs)
				took = append(took, time.Since(begin))
			}
		}
		b.ReportMetric(float64(bytes.Load()-before)/1024/float64(len(took)), "KiB-sent")
		failed <- err
		s.finish()
	}()
	reach := func(ctx context.Context, h hosts.Host) (io.ReadWriteCloser, error) {
		return s.reachBySockets(ctx, listener, &bytes, h)
	}
	result := s.run(b, s.spec(), Options{reacher: Reach(reach)})
	require.NoError(b, <-failed)
	assert.Zero(b, result.ExitCode, Explain(result))
	slices.Sort(took)
	b.ReportMetric(took[0].Seconds()*1e3, "ms-min")
	b.ReportMetric(took[len(took)/2].Seconds()*1e3, "ms-median")
}
