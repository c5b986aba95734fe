package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// storeRun compares gorun's store with PyTorch's own (TCPStore with libuv), under a load generator in C that speaks the
// raw protocol (csrc/storeload.c). Both servers stand side by side and take turns within each round.
type storeRun struct {
	*bench
	pair [2]*storeServer // gorun's and PyTorch's
	*report
}

func stores(b *bench) error {
	r := &storeRun{bench: b, report: b.table("store: gorun beside PyTorch's TCPStore with libuv",
		"what", "unit", "gorun best", "median", "libuv best", "median", "gorun/libuv", "paired", "target", "verdict",
		"CPU µs gorun", "libuv", "ratio", "target", "verdict")}
	if b.python == "" {
		r.note("left out: no .venv/bin/python: .ci/setup makes it")
		return nil
	}
	r.note("best is the least time or the highest rate; CPU is the server's own, for each operation or client; paired " +
		"is the median of the ratios in each round, which neighbours on the machine disturb less")
	for i, argv := range [][]string{
		{b.gorun, "store", "--listen", "127.0.0.1:0"}, {b.python, "internal/bench/torchstore.py"},
	} {
		var err error
		if r.pair[i], err = startStore(argv...); err != nil {
			return err
		}
		defer r.pair[i].end()
	}
	// memory while both are fresh
	for _, part := range []func() error{r.memory, r.operations, r.joins, r.fanout, r.tails} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// operations measures each operation at each number of connections. storeload has both servers take turns.
func (r *storeRun) operations() error {
	for _, connections := range r.sizes([]int{1, 16, 256, 1000, 4000}, 3) {
		if err := r.settle(); err != nil {
			return err
		}
		results, err := r.load("ops", "-s", r.pair[0].spec(), "-s", r.pair[1].spec(),
			"-c", strconv.Itoa(connections), "-r", strconv.Itoa(r.count(13)), "-t", "100", "-w", "30")
		if err != nil {
			return err
		}
		want := storeGoals{ratio: 1.05, cpu: 0.95}
		if connections < 16 {
			want = storeGoals{ratio: 1}
		}
		for _, op := range []string{"set", "get", "add", "check", "waitget"} {
			rate, cpu := quantity{more: true}, quantity{}
			for _, one := range results {
				if one.Op == op && one.Operations > 0 {
					rate.add(one.Server, one.Operations/one.Seconds/1e3)
					cpu.add(one.Server, one.CPU/one.Operations*1e6)
				}
			}
			r.compared(fmt.Sprintf("%s × %d", op, connections), "k/s", rate, cpu, want)
		}
	}
	return nil
}

// joins measures the world's coming together.
func (r *storeRun) joins() error {
	for _, clients := range r.sizes([]int{100, 1000, 4000, 10000}, 2) {
		want := storeGoals{ratio: 1}
		if clients > 1000 {
			want.ratio = 1.05
		}
		took, cpu := quantity{}, quantity{}
		err := r.inTurn(max(2, 15*100/clients), func(server int, one loadResult) {
			took.add(server, one.Seconds)
			cpu.add(server, one.CPU/float64(one.Clients)*1e6)
		}, "join", "-c", strconv.Itoa(clients))
		if err != nil {
			return err
		}
		r.compared(fmt.Sprintf("join × %d", clients), "s", took, cpu, want)
	}
	return nil
}

// fanout measures how long one value of 8 MiB takes to 64 waiting clients.
func (r *storeRun) fanout() error {
	took, cpu := quantity{}, quantity{}
	err := r.inTurn(7, func(server int, one loadResult) {
		took.add(server, one.Seconds*1e3)
		cpu.add(server, one.CPU/float64(one.Clients)*1e6)
	}, "fanout", "-c", "64")
	r.compared("8 MiB to 64", "ms", took, cpu, storeGoals{ratio: 1})
	return err
}

// tails measures what one client's GETs take while many others do nothing else.
func (r *storeRun) tails() error {
	others := r.sizes([]int{256, 4000}, 1)
	busy := others[len(others)-1]
	p50, p99 := quantity{}, quantity{}
	err := r.inTurn(5, func(server int, one loadResult) {
		p50.add(server, one.P50*1e3)
		p99.add(server, one.P99*1e3)
	}, "tail", "-c", strconv.Itoa(busy), "-t", "1000")
	r.compared(fmt.Sprintf("p50 of a get beside %d", busy), "ms", p50, quantity{}, storeGoals{})
	r.compared(fmt.Sprintf("p99 of a get beside %d", busy), "ms", p99, quantity{}, storeGoals{ratio: 1})
	return err
}

// memory measures both servers without and with idle connections.
func (r *storeRun) memory() error {
	idle := 10 * r.sizes([]int{100, 1000}, 1)[0]
	without, each := quantity{}, quantity{}
	for i, s := range r.pair {
		if _, err := r.held(s, 16); err != nil { // whatever is made once is made
			return err
		}
		before, err := heldBy(s.pid())
		if err != nil {
			return err
		}
		with, err := r.held(s, idle)
		if err != nil {
			return err
		}
		without.add(i, float64(before.now)/1024)
		each.add(i, float64(with.now-before.now)/float64(idle))
	}
	r.compared("memory without connections", "MiB", without, quantity{}, storeGoals{most: 16})
	r.compared(fmt.Sprintf("memory of each of %d idle", idle), "KiB", each, quantity{}, storeGoals{most: 2})
	return nil
}

// sizes are those to measure: the first few of a quick run, and those that -n names.
func (r *storeRun) sizes(all []int, quick int) []int {
	if r.quick {
		all = all[:quick]
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(n int) bool { return !r.wanted(n) })
	if len(chosen) == 0 {
		return all[:1]
	}
	return chosen
}

// loadResult is a line of storeload; each mode fills some of it. Times are in seconds.
type loadResult struct {
	Op           string
	Server       int
	Operations   float64
	Seconds, CPU float64
	Clients      int
	Samples      int
	P50, P99     float64
}

// load runs storeload to its end.
func (b *bench) load(mode string, args ...string) (all []loadResult, err error) {
	command := exec.Command(b.storeload, append([]string{mode}, args...)...)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	for lines := json.NewDecoder(output); ; {
		var one loadResult
		if err = lines.Decode(&one); err != nil {
			break
		}
		all = append(all, one)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err := errors.Join(err, command.Wait()); err != nil {
		return nil, fmt.Errorf("storeload %s %v: %w", mode, args, err)
	}
	return all, nil
}

// inTurn runs a mode that knows one server for both in turn, each time when both are at rest, and hands each result to
// add.
func (r *storeRun) inTurn(rounds int, add func(server int, one loadResult), mode string, args ...string) error {
	for round := range r.count(rounds) {
		for turn := range r.pair {
			i := (turn + round) % len(r.pair)
			if err := r.settle(); err != nil {
				return err
			}
			all, err := r.load(mode, append([]string{"-s", r.pair[i].spec()}, args...)...)
			if err == nil && len(all) != 1 {
				err = fmt.Errorf("storeload %s gave %d results instead of one", mode, len(all))
			}
			if err != nil {
				return err
			}
			add(i, all[0])
		}
	}
	return nil
}

// held is a server's memory while that many idle connections are open.
func (r *storeRun) held(s *storeServer, connections int) (h held, err error) {
	command := exec.Command(r.storeload, "idle", "-s", s.spec(), "-c", strconv.Itoa(connections))
	command.Stderr = os.Stderr
	hold, err := command.StdinPipe()
	if err != nil {
		return h, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return h, err
	}
	if err := command.Start(); err != nil {
		return h, err
	}
	var one loadResult
	if err = json.NewDecoder(output).Decode(&one); err == nil {
		h, err = heldBy(s.pid())
	}
	_ = hold.Close()
	return h, errors.Join(err, command.Wait(), r.settle())
}

// settle waits until neither server has anything to do: closing the connections of one measurement must not be part of
// the next.
func (r *storeRun) settle() error {
	const pause, idle, most = 20 * time.Millisecond, 500 * time.Microsecond, 500
	for range most {
		var spent [2]time.Duration
		for i := range spent {
			for _, s := range r.pair {
				now, err := cpuTime(s.pid())
				if err != nil {
					return fmt.Errorf("read the CPU time of a store (process %d): %w", s.pid(), err)
				}
				spent[i] += now
			}
			<-time.After(pause / 2)
		}
		if spent[1]-spent[0] < idle {
			return nil
		}
	}
	return fmt.Errorf("the stores do not come to rest within %v", most*pause)
}

// storeServer is one store that runs.
type storeServer struct {
	addr    string
	command *exec.Cmd
	said    chan struct{} // closed at the end of its output
}

// startStore starts a server that prints its address as its first line, and waits for that.
func startStore(argv ...string) (*storeServer, error) {
	command := exec.Command(argv[0], argv[1:]...)
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start a store: %w", err)
	}
	s := &storeServer{command: command, said: make(chan struct{})}
	lines := bufio.NewScanner(output)
	lines.Scan()
	go func() {
		_, _ = io.Copy(io.Discard, output)
		close(s.said)
	}()
	s.addr, _, _ = strings.Cut(lines.Text(), " ")
	if _, err := netip.ParseAddrPort(s.addr); err != nil {
		s.end()
		return nil, fmt.Errorf("%v should print its address first: it said %q", argv, lines.Text())
	}
	return s, nil
}

// spec names the server to storeload.
func (s *storeServer) spec() string { return fmt.Sprintf("%s:%d", s.addr, s.pid()) }

func (s *storeServer) pid() int { return s.command.Process.Pid }

// end asks the server to end, and makes it after a while.
func (s *storeServer) end() {
	_ = s.command.Process.Signal(syscall.SIGTERM)
	forced := time.AfterFunc(10*time.Second, func() { _ = s.command.Process.Kill() })
	defer forced.Stop()
	<-s.said
	_ = s.command.Wait()
}

// quantity is what was measured of both servers, in the order of the pair.
type quantity struct {
	of   [2][]float64
	more bool // more is better
}

func (q *quantity) add(server int, value float64) { q.of[server] = append(q.of[server], value) }

func (q *quantity) best(server int) float64 {
	if q.more {
		return slices.Max(q.of[server])
	}
	return slices.Min(q.of[server])
}

func (q *quantity) median(server int) float64 { return median(q.of[server]) }

func median(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// paired is the median of gorun's figure to libuv's in each round: what slows the machine for some rounds slows both.
func (q *quantity) paired() float64 {
	var ratios []float64
	for i := range min(len(q.of[0]), len(q.of[1])) {
		ratios = append(ratios, q.of[0][i]/q.of[1][i])
	}
	return median(ratios)
}

// storeGoals are what gorun should reach; 0 is no goal.
type storeGoals struct {
	ratio float64 // of gorun's figure to libuv's: at least, where more is better, else at most
	cpu   float64 // of the CPU time of an operation: at most
	most  float64 // gorun's own figure: at most
}

// of returns the goal in words and whether it is reached.
func (g storeGoals) of(q *quantity) (target, reached string) {
	switch {
	case g.most > 0:
		return fmt.Sprintf("≤ %g", g.most), verdict(q.best(0) <= g.most, q.median(0) <= g.most)
	case g.ratio == 0:
		return "", ""
	case q.more:
		return fmt.Sprintf("≥ %g", g.ratio), verdict(q.best(0) >= g.ratio*q.best(1), q.median(0) >= g.ratio*q.median(1))
	}
	return fmt.Sprintf("≤ %g", g.ratio), verdict(q.best(0) <= g.ratio*q.best(1), q.median(0) <= g.ratio*q.median(1))
}

// compared writes one line; cpu may be empty.
func (r *storeRun) compared(what, unit string, q, cpu quantity, g storeGoals) {
	if len(q.of[0]) == 0 || len(q.of[1]) == 0 {
		r.row(what, unit, "", "", "", "", "", "", "", noFigure)
		return
	}
	target, reached := g.of(&q)
	cells := []any{
		what, unit, number(q.best(0)), number(q.median(0)), number(q.best(1)), number(q.median(1)),
		ratio(q.median(0), q.median(1)), number(q.paired()), target, reached,
	}
	if len(cpu.of[0]) > 0 && len(cpu.of[1]) > 0 && slices.Max(cpu.of[1]) > 0 {
		target, reached := storeGoals{ratio: g.cpu}.of(&cpu)
		cells = append(cells, number(cpu.median(0)), number(cpu.median(1)), ratio(cpu.median(0), cpu.median(1)), target,
			reached)
	}
	r.row(cells...)
}
