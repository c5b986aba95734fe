package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime/metrics"
	"strconv"
	"time"

	"gorun/comm"
)

// floatsPerLine is the number of float32 in a cache line.
const floatsPerLine = 16

// loop is the loop of csrc/commloop.h for comm.
type loop struct {
	group      *comm.Group
	send, recv [2][]float32 // private, and allocated from comm
}

// keyVariable names the file with the job's key, which ranks on several hosts need.
const keyVariable = "GORUN_JOB_KEY"

// runRank joins the group and does tasks until the socket closes. Without a socket it returns after the first
// barrier.
func runRank(size string) error {
	ctx := context.Background()
	bytes, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	group, err := comm.Join(ctx)
	if err != nil {
		return err
	}
	defer group.Close()
	if err := comm.Barrier(ctx, group); err != nil {
		return err
	}
	l := loop{group: group}
	if bytes > 0 {
		if err := l.allocate(ctx, bytes/4); err != nil {
			return err
		}
	}
	path := os.Getenv(socketVariable)
	if path == "" {
		return nil
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprintf(conn, "hello %d %d 0\n", group.Rank(), os.Getpid())
	for {
		var t task
		if _, err := fmt.Fscanln(conn, &t.operation, &t.bytes, &t.warm, &t.calls, &t.shared); err != nil {
			return nil // the socket is closed
		}
		if err := l.do(ctx, t, conn); err != nil {
			return err
		}
	}
}

// allocate makes the buffers and touches their pages.
func (l *loop) allocate(ctx context.Context, floats int) error {
	for i := range 2 {
		l.send[i], l.recv[i] = make([]float32, floats), make([]float32, floats)
	}
	for _, buffer := range []*[]float32{&l.send[1], &l.recv[1]} {
		if os.Getenv(keyVariable) != "" {
			break // no memory is shared between hosts
		}
		shared, err := comm.Allocate[float32](ctx, l.group, floats)
		if err != nil {
			return err
		}
		*buffer = shared.Data
	}
	for _, buffer := range [][]float32{l.send[0], l.recv[0], l.send[1], l.recv[1]} {
		for i := range buffer {
			buffer[i] = 1
		}
	}
	return nil
}

// do does a task and reports its timing.
func (l *loop) do(ctx context.Context, t task, conn net.Conn) error {
	send, recv, call := l.prepare(ctx, t)
	if err := l.repeat(t.warm, send, call); err != nil {
		return err
	}
	before := allocations()
	if err := comm.Barrier(ctx, l.group); err != nil {
		return err
	}
	begin := time.Now()
	if err := l.repeat(t.calls, send, call); err != nil {
		return err
	}
	took := time.Since(begin)
	after := allocations()
	first := recv[0]
	begin = time.Now()
	_ = l.repeat(t.calls, send, func() error { return nil })
	_, err := fmt.Fprintln(conn, took.Nanoseconds(), time.Since(begin).Nanoseconds(), after-before, first)
	return err
}

// allocations counts the objects that were ever allocated. runtime.ReadMemStats would stop the world and restart
// threads, which would compete with the ranks for CPUs during the first timed calls.
func allocations() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// repeat writes the input and makes the call.
func (l *loop) repeat(times int, send []float32, call func() error) error {
	rank := l.group.Rank()
	for i := range times {
		value := float32(i&1023 + rank)
		for k := 0; k < len(send); k += floatsPerLine {
			send[k] = value
		}
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

// prepare returns the buffers and the call of a task.
func (l *loop) prepare(ctx context.Context, t task) (send, recv []float32, call func() error) {
	g, ranks := l.group, l.group.Size()
	next, previous := (g.Rank()+1)%ranks, (g.Rank()+ranks-1)%ranks
	count, block := max(t.bytes/4, 1), max(t.bytes/4/ranks, 1)
	send, recv = l.send[t.shared][:count], l.recv[t.shared][:count]
	switch t.operation {
	case "allreduce":
		call = func() error { return comm.AllReduce(ctx, g, send, recv, comm.Sum) }
	case "reduce":
		call = func() error { return comm.Reduce(ctx, g, send, recv, comm.Sum, 0) }
	case "broadcast":
		recv, call = send, func() error { return comm.Broadcast(ctx, g, send, 0) }
	case "allgather":
		send, recv = send[:block], recv[:block*ranks]
		call = func() error { return comm.AllGather(ctx, g, send, recv) }
	case "reducescatter":
		send, recv = send[:block*ranks], recv[:block]
		call = func() error { return comm.ReduceScatter(ctx, g, send, recv, comm.Sum) }
	case "alltoall":
		send, recv = send[:block*ranks], recv[:block*ranks]
		call = func() error { return comm.AllToAll(ctx, g, send, recv) }
	case "sendrecv":
		call = func() error { return comm.SendRecv(ctx, g, send, next, recv, previous) }
	case "pingpong":
		call = func() error { return pingPong(ctx, g, send, recv) }
	default:
		send, call = nil, func() error { return comm.Barrier(ctx, g) }
	}
	return send, recv, call
}

// pingPong sends a vector from the first rank to the last and back.
func pingPong(ctx context.Context, g *comm.Group, send, recv []float32) error {
	last := g.Size() - 1
	if g.Rank() == 0 {
		if err := comm.Send(ctx, g, send, last); err != nil {
			return err
		}
	}
	if g.Rank() == 0 || g.Rank() == last {
		if err := comm.Recv(ctx, g, recv, last-g.Rank()); err != nil {
			return err
		}
	}
	if g.Rank() == last {
		return comm.Send(ctx, g, send, 0)
	}
	return nil
}
