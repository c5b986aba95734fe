package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"runtime/metrics"
	"strconv"
	"time"

	"gorun/comm"
)

// floatsPerLine is how many float32 a cache line has.
const floatsPerLine = 16

// loop is comm's side: the loop of csrc/commloop.h.
type loop struct {
	group      *comm.Group
	send, recv [2][]float32 // private, and allocated from comm
}

// job is a task as a rank sees it.
type job struct {
	operation          string
	bytes, warm, calls int
	shared             int

	send, recv []float32
}

// memberVariable tells a rank that no launcher started who it is: "RANK SIZE STORE KEY", the key in hexadecimal digits.
const memberVariable = "COMMBENCH_MEMBER"

// parseMember returns how such a rank joins.
func parseMember(text string) ([]comm.Option, error) {
	if text == "" {
		return nil, nil
	}
	var rank, size int
	var store, digits string
	if _, err := fmt.Sscan(text, &rank, &size, &store, &digits); err != nil {
		return nil, fmt.Errorf("%s=%q: %w", memberVariable, text, err)
	}
	key, err := hex.DecodeString(digits)
	if err != nil {
		return nil, fmt.Errorf("%s=%q: the key: %w", memberVariable, text, err)
	}
	return []comm.Option{comm.WithRank(rank, size), comm.WithStore(store), comm.WithKey(key)}, nil
}

// beRank joins, meets the others once, says hello and works until the socket closes.
func beRank(size string) error {
	ctx := context.Background()
	bytes, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	joining, err := parseMember(os.Getenv(memberVariable))
	if err != nil {
		return err
	}
	group, err := comm.Join(ctx, joining...)
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
	path := os.Getenv(doorVariable)
	if path == "" {
		return nil // that was all
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprintf(conn, "hello %d %d 0\n", group.Rank(), os.Getpid())
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if err := l.serve(ctx, lines.Text(), conn); err != nil {
			return err
		}
	}
	return nil
}

// allocate makes the buffers and writes every page of them.
func (l *loop) allocate(ctx context.Context, floats int) error {
	for i := range 2 {
		l.send[i], l.recv[i] = make([]float32, floats), make([]float32, floats)
	}
	for _, buffer := range []*[]float32{&l.send[1], &l.recv[1]} {
		if os.Getenv(memberVariable) != "" {
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

func (l *loop) serve(ctx context.Context, line string, conn net.Conn) error {
	var j job
	if _, err := fmt.Sscanf(line, "%s %d %d %d %d", &j.operation, &j.bytes, &j.warm, &j.calls, &j.shared); err != nil {
		return fmt.Errorf("%q is no task: %w", line, err)
	}
	call := l.prepare(ctx, &j)
	if err := l.repeat(j.warm, &j, call); err != nil {
		return err
	}
	before := allocations()
	if err := comm.Barrier(ctx, l.group); err != nil {
		return err
	}
	begin := time.Now()
	if err := l.repeat(j.calls, &j, call); err != nil {
		return err
	}
	took := time.Since(begin)
	after := allocations()
	first := j.recv[:1][0]
	if j.operation == "broadcast" {
		first = j.send[0]
	}
	begin = time.Now()
	_ = l.repeat(j.calls, &j, func() error { return nil })
	writing := time.Since(begin)
	_, err := fmt.Fprintf(conn, "%d %d %d %g\n", took, writing, after-before, first)
	return err
}

// allocations counts the objects that were ever allocated. runtime.ReadMemStats would stop the world for it and start
// threads again, which keep the CPUs from the ranks during the first calls that are timed.
func allocations() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// repeat writes the input and makes the call, times times.
func (l *loop) repeat(times int, j *job, call func() error) error {
	rank := l.group.Rank()
	for i := range times {
		value := float32(i&1023 + rank)
		for k := 0; k < len(j.send); k += floatsPerLine {
			j.send[k] = value
		}
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

// prepare cuts the job's buffers and returns its call.
func (l *loop) prepare(ctx context.Context, j *job) func() error {
	g, ranks := l.group, l.group.Size()
	next, previous := (g.Rank()+1)%ranks, (g.Rank()+ranks-1)%ranks
	send, recv := l.send[j.shared], l.recv[j.shared]
	count := max(j.bytes/4, 1)
	block := max(j.bytes/4/ranks, 1)
	j.send, j.recv = send[:count], recv[:count]
	switch j.operation {
	case "allreduce":
		return func() error { return comm.AllReduce(ctx, g, j.send, j.recv, comm.Sum) }
	case "reduce":
		return func() error { return comm.Reduce(ctx, g, j.send, j.recv, comm.Sum, 0) }
	case "broadcast":
		return func() error { return comm.Broadcast(ctx, g, j.send, 0) }
	case "allgather":
		j.send, j.recv = send[:block], recv[:block*ranks]
		return func() error { return comm.AllGather(ctx, g, j.send, j.recv) }
	case "reducescatter":
		j.send, j.recv = send[:block*ranks], recv[:block]
		return func() error { return comm.ReduceScatter(ctx, g, j.send, j.recv, comm.Sum) }
	case "alltoall":
		j.send, j.recv = send[:block*ranks], recv[:block*ranks]
		return func() error { return comm.AllToAll(ctx, g, j.send, j.recv) }
	case "sendrecv":
		return func() error { return comm.SendRecv(ctx, g, j.send, next, j.recv, previous) }
	case "pingpong":
		return func() error { return pingPong(ctx, g, j.send, j.recv) }
	}
	j.send = nil
	return func() error { return comm.Barrier(ctx, g) }
}

// pingPong: the first and the last rank send the vector there and back.
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
