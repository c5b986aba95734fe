package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
)

// The implementations. allocated is comm with memory of comm.Allocate.
const (
	ours      = "comm"
	allocated = "allocated"
	openMPI   = "openmpi"
	mpich     = "mpich"
	gloo      = "gloo"
)

var rivals = []string{openMPI, mpich, gloo}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// callComparison compares comm's collectives of float32 with those of Open MPI, MPICH and Gloo. The ranks of all
// peers exist at the same time and block on a socket between their turns, so that a row's batches are interleaved
// within seconds. A batch is the same loop in Go, C and Python (see csrc/commloop.h): before each call, it writes a
// float into every cache line of the input, since pages that were never written all map the kernel's zero page, and
// unmodified lines stay in both CPUs' caches. The writes are also timed alone and subtracted. A batch takes as long
// as its slowest rank.
type callComparison struct {
	*bench
	rounds  int
	batch   time.Duration
	program map[string]string // by peer
	hosts   *testhosts.Set
	key     string // file with the job key of comm's ranks on two hosts
}

func collectives(b *bench) error {
	c := &callComparison{bench: b, rounds: 9, batch: 20 * time.Millisecond}
	ranks, each := []int{2, 4}, []int{1, 2}
	sizes := []int{4, 8, 64, 256, kib, 4 * kib, 16 * kib, 64 * kib, 256 * kib, mib, 4 * mib, 16 * mib, 64 * mib}
	hostSizes := []int{4, 4 * kib, 64 * kib, mib, 64 * mib}
	if b.quick {
		c.rounds, c.batch = 3, 8*time.Millisecond
		each, sizes = nil, []int{8, 4 * kib, 64 * kib, mib, 16 * mib, 64 * mib}
	}
	table := b.table("collectives of float32, µs a call: minimum / median", "ranks", "operation", "bytes", "comm",
		"Open MPI", "MPICH", "Gloo", "comm/best min", "median", "target", "verdict", "allocations")
	c.findPeers(table)
	for _, n := range ranks {
		if b.selects(n) {
			operations := []string{
				"allreduce", "reduce", "broadcast", "allgather", "reducescatter", "alltoall", "sendrecv",
				"barrier",
			}
			if err := c.measure(table, setting{ranks: n}, operations, sizes); err != nil {
				return err
			}
		}
	}
	if len(each) == 0 {
		return nil
	}
	return c.betweenHosts(each, hostSizes)
}

// findPeers compiles the peers' programs and notes those that are missing.
func (c *callComparison) findPeers(r *report) {
	c.program = map[string]string{ours: c.self, gloo: c.python}
	compile := func(peer, source string, compiler ...string) {
		var err error
		if c.program[peer], err = c.compile(source, compiler...); err != nil {
			r.note("left out: %s: %v", peer, err)
		}
	}
	for name, layer := range map[string]testneeds.Layer{openMPI: testneeds.LayerOpenMPI, mpich: testneeds.LayerMPICH} {
		if library := testneeds.FindMPI(".", layer); library.Compiler == "" || !library.HasLauncher() {
			r.note("left out: %s is not here with its compiler", name)
		} else {
			compile(name, "commmpi", library.Compiler, "-O2")
		}
	}
}

// localCommands starts a peer's ranks on this host. The MPIs have the best settings that their manuals name for that.
func (c *callComparison) localCommands(name string, ranks, bytes int) []*exec.Cmd {
	n, size, program := strconv.Itoa(ranks), strconv.Itoa(bytes), c.program[name]
	var argv []string
	switch oversubscribed := ranks > runtime.NumCPU(); {
	case program == "":
		return nil
	case name == ours:
		argv = []string{c.gorun, "-n", n, program, "as-rank", size}
	case name == gloo:
		argv = []string{c.gorun, "-n", n, program, "internal/bench/gloo.py", size}
	case name == mpich && oversubscribed:
		argv = []string{c.hydra, "-n", n, program, size}
	case name == mpich:
		argv = []string{c.hydra, "-bind-to", "core", "-n", n, program, size}
	case oversubscribed:
		argv = []string{
			c.openMPI, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
			"--mca", "mpi_yield_when_idle", "1", "-n", n, program, size,
		}
	default:
		argv = []string{c.openMPI, "--allow-run-as-root", "--bind-to", "core", "-n", n, program, size}
	}
	return []*exec.Cmd{exec.Command(argv[0], argv[1:]...)}
}

// betweenHosts measures ranks on two hosts: namespaces with sshd and a bridge between them.
func (c *callComparison) betweenHosts(each, sizes []int) error {
	table := c.table("between two hosts (network namespaces), µs a call: minimum / median; pingpong is there and back",
		"ranks a host", "operation", "bytes", "comm", "Open MPI", "MPICH", "Gloo", "comm/best min", "median",
		"target", "verdict", "allocations")
	err := testneeds.FindHosts()
	if err == nil {
		c.hosts, err = testhosts.Start(testhosts.Config{Hosts: 2})
	}
	if err != nil {
		table.note("left out: %v", err)
		return nil
	}
	c.key = filepath.Join(c.dir, "key")
	if err := os.WriteFile(c.key, []byte(rand.Text()+rand.Text()), 0o600); err != nil {
		return errors.Join(err, c.hosts.Down())
	}
	for _, n := range each {
		err = errors.Join(err, c.measure(table, setting{ranks: 2 * n, each: n},
			[]string{"pingpong", "allreduce", "broadcast", "allgather", "sendrecv", "barrier"}, sizes))
	}
	return errors.Join(err, c.hosts.Down())
}

// Ports on the two hosts, which share a private network.
const storePort, glooPort = 29400, 29500

// remoteCommands starts a peer's ranks on two hosts with its own launcher, the first ranks on the first host.
func (c *callComparison) remoteCommands(name string, each, bytes int) []*exec.Cmd {
	size, n, first, program := strconv.Itoa(bytes), strconv.Itoa(2*each), c.hosts.Address("h1"), c.program[name]
	members := func(port int, argv ...string) (all []*exec.Cmd) {
		for rank := range 2 * each {
			host := rank / each
			words := argv
			if each == 1 && runtime.NumCPU() > 1 { // pinned, as by any launcher that binds
				words = append([]string{"taskset", "-c", strconv.Itoa(host)}, argv...)
			}
			command := c.hosts.Command(fmt.Sprintf("h%d", host+1), words...)
			command.Env = []string{
				"MASTER_ADDR=" + first, fmt.Sprint("MASTER_PORT=", port), fmt.Sprint("RANK=", rank), "WORLD_SIZE=" + n,
				fmt.Sprint("LOCAL_RANK=", rank%each), "GLOO_SOCKET_IFNAME=eth0", keyVariable + "=" + c.key,
			}
			all = append(all, command)
		}
		return all
	}
	slots := fmt.Sprintf("h1:%d,h2:%[1]d", each)
	switch {
	case program == "":
	case name == ours:
		return members(storePort, program, "as-rank", size)
	case name == gloo:
		return members(glooPort, program, "internal/bench/gloo.py", size)
	case name == openMPI: // its own transport over TCP and, within a host, shared memory
		yield := "0"
		if 2*each > runtime.NumCPU() { // it only knows how many ranks and CPUs each host has
			yield = "1"
		}
		return []*exec.Cmd{c.hosts.Command(testhosts.Head, c.openMPI, "--allow-run-as-root",
			"--mca", "plm_rsh_agent", c.hosts.SSH(), "--mca", "pml", "ob1", "--mca", "btl", "tcp,self,vader",
			"--mca", "btl_tcp_if_include", "eth0", "--mca", "mpi_yield_when_idle", yield, "--bind-to", "none",
			"--map-by", "slot", "--host", slots, "-x", socketVariable, "-n", n, program, size)}
	case name == mpich: // UCX over TCP; by default it would take both for one host with shared memory
		command := c.hosts.Command(testhosts.Head, c.hydra, "-launcher", "ssh", "-launcher-exec", c.hosts.SSH(),
			"-hosts", slots, "-n", n, program, size)
		command.Env = []string{"UCX_TLS=tcp,self", "UCX_NET_DEVICES=eth0"}
		return []*exec.Cmd{command}
	}
	return nil
}

// setting is where rows are measured.
type setting struct {
	ranks    int
	each     int // ranks on each of two hosts; 0: all on one host
	sessions map[string]*session
}

// row is one operation with one size.
type row struct {
	setting
	operation string
	bytes     int
	figures   map[string]*figures // by peer
}

// measure writes a row for each operation and size.
func (c *callComparison) measure(table *report, s setting, operations []string, sizes []int) error {
	s.sessions = map[string]*session{}
	defer func() {
		for _, one := range s.sessions {
			one.close()
		}
	}()
	others := slices.DeleteFunc(slices.Clone(rivals), func(name string) bool { return !listed(c.with, name) })
	for _, name := range append([]string{ours}, others...) {
		commands := c.localCommands(name, s.ranks, slices.Max(sizes))
		if s.each > 0 {
			commands = c.remoteCommands(name, s.each, slices.Max(sizes))
		}
		if len(commands) == 0 {
			continue
		}
		one, err := startSession(c.dir, name, s.ranks, commands...)
		switch {
		case err == nil:
			s.sessions[name] = one
		case name == ours:
			return err
		default:
			table.note("left out with %d ranks: %v", s.ranks, err)
		}
	}
	for _, operation := range operations {
		own := sizes
		if operation == "barrier" {
			own = []int{0}
		}
		for _, size := range own {
			r := &row{setting: s, operation: operation, bytes: size}
			if err := r.measure(c, table); err != nil {
				return err
			}
			r.write(table)
		}
		log.Printf("%d ranks: %s is done", s.ranks, operation)
	}
	return nil
}

// measure interleaves the peers' batches. It drops a peer that fails, unless that is comm.
func (r *row) measure(c *callComparison, table *report) error {
	r.figures = map[string]*figures{}
	names := slices.Sorted(maps.Keys(r.sessions))
	if r.each == 0 && (r.operation == "allreduce" || r.operation == "reducescatter") {
		names = append(names, allocated)
	}
	more := c.nextRow(c.rounds)
	for round := 0; more(round); round++ {
		for turn := range names {
			name := names[(turn+round)%len(names)]
			s := r.sessions[name]
			if name == allocated {
				s = r.sessions[ours]
			}
			if s == nil {
				continue
			}
			err := r.runBatch(c, name, s)
			if err != nil && s.name == ours {
				return err
			}
			if err != nil {
				table.note("left out from there on: %v", err)
				s.close()
				delete(r.sessions, name)
				delete(r.figures, name)
			}
		}
	}
	return nil
}

// runBatch adds a batch of a peer.
func (r *row) runBatch(c *callComparison, name string, s *session) (err error) {
	t := task{operation: r.operation, bytes: r.bytes}
	if name == allocated {
		t.shared = 1
	}
	f := r.figures[name]
	if f == nil {
		f = &figures{}
		if f.calls, err = s.calibrate(t, c.batch); err != nil {
			return err
		}
		r.figures[name] = f
	}
	t.calls, t.warm = f.calls, f.calls/10+1
	a, err := s.run(t)
	if err == nil {
		f.add(a)
	}
	return err
}

// figures are a peer's batches of a row, in microseconds per call.
type figures struct {
	calls       int // in a batch
	all         samples
	writing     samples // of the input, which is subtracted
	allocations samples // per call
}

// add adds a batch.
func (f *figures) add(a timing) {
	perCall := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(f.calls) }
	f.writing = append(f.writing, perCall(a.writing))
	f.allocations = append(f.allocations, float64(a.allocations)/float64(f.calls))
	f.all = append(f.all, perCall(a.total))
}

// figure returns a minimum or median without the writes. It is 0 without batches.
func (f *figures) figure(of func(samples) float64) float64 {
	if f == nil || len(f.all) == 0 {
		return 0
	}
	return max(of(f.all)-f.writing.min(), 0.001)
}

func (f *figures) String() string {
	if f == nil {
		return "-"
	}
	return number(f.figure(samples.min)) + " / " + number(f.figure(samples.median))
}

// best returns the lowest figure of the rivals, or 0.
func (r *row) best(of func(samples) float64) float64 {
	var all samples
	for _, name := range rivals {
		if v := r.figures[name].figure(of); v > 0 {
			all = append(all, v)
		}
	}
	return all.min()
}

// target returns the largest acceptable multiple of the best rival's figures.
func (r *row) target() float64 {
	switch {
	case r.operation != "allreduce" || r.each > 0 || r.bytes < 64*kib:
		return 1
	case r.bytes < 16*mib:
		return 0.67
	}
	return 0.4
}

// write writes a row for comm, and one for comm with allocated memory.
func (r *row) write(table *report) {
	for _, name := range []string{ours, allocated} {
		f := r.figures[name]
		if f == nil {
			continue
		}
		title, ranks := r.operation, r.ranks
		if name == allocated {
			title += ", allocated"
		}
		if r.each > 0 {
			ranks = r.each
		}
		target, best, bestMedian := r.target(), r.best(samples.min), r.best(samples.median)
		mine, median, reached := f.figure(samples.min), f.figure(samples.median), noFigure
		if best > 0 {
			reached = verdict(mine <= target*best, median <= target*bestMedian)
		}
		table.row(ranks, title, r.bytes, f, r.figures[openMPI], r.figures[mpich], r.figures[gloo],
			ratio(mine, best), ratio(median, bestMedian), goal{ratio: target}, reached,
			fmt.Sprintf("%.2f", f.allocations.min()))
	}
}
