package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// storeComparison compares gorun's store with PyTorch's TCPStore with libuv. csrc/storeload.c loads them with the raw
// protocol. Both servers run side by side and take turns within each round.
type storeComparison struct {
	*bench
	servers [2]*storeServer // gorun's and PyTorch's
	*report
}

func stores(b *bench) error {
	r := &storeComparison{bench: b, report: b.table("store: gorun beside PyTorch's TCPStore with libuv",
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
		if r.servers[i], err = startStore(argv...); err != nil {
			return err
		}
		defer r.servers[i].stop()
	}
	// memory first, while both are fresh
	for _, part := range []func() error{r.memory, r.operations, r.joins, r.fanout, r.tails} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// operations measures each operation at each number of connections. storeload has both servers take turns.
func (r *storeComparison) operations() error {
	for _, connections := range r.sizes([]int{1, 16, 256, 1000, 4000}, 3) {
		if err := r.awaitIdle(); err != nil {
			return err
		}
		results, err := r.load("ops", "-s", r.servers[0].spec(), "-s", r.servers[1].spec(),
			"-c", strconv.Itoa(connections), "-r", strconv.Itoa(r.scale(13)), "-t", "100", "-w", "30")
		if err != nil {
			return err
		}
		want, wantCPU := goal{least: 1.1}, goal{ratio: 0.9}
		if connections < 16 {
			want, wantCPU = goal{least: 1}, goal{}
		}
		for _, op := range []string{"set", "get", "add", "check", "waitget", "multiget"} {
			var rate, cpu pair
			for _, one := range results {
				if one.Op == op && one.Operations > 0 {
					rate.add(one.Server, one.Operations/one.Seconds/1e3)
					cpu.add(one.Server, one.CPU/one.Operations*1e6)
				}
			}
			r.compareRow(fmt.Sprintf("%s × %d", op, connections), "k/s", rate, cpu, want, wantCPU)
		}
	}
	return nil
}

// joins measures how long it takes until all clients have met, and the longest pause between two answers.
func (r *storeComparison) joins() error {
	counts := []int{100, 1000, 4000, 10000}
	if r.only != "" {
		counts = append(counts, 96000) // needs 128,004 open files
	}
	for _, clients := range r.sizes(counts, 2) {
		err := r.alternate(max(2, 15*100/clients), []figure{
			{fmt.Sprintf("join × %d", clients), "s", func(one loadResult) float64 { return one.Seconds }, goal{ratio: 1}},
			{"longest pause", "ms", func(one loadResult) float64 { return one.Pause * 1e3 }, goal{}},
		}, "join", "-c", strconv.Itoa(clients))
		if err != nil {
			return err
		}
	}
	return nil
}

// fanout measures the delivery of a value of 8 MiB to 64 waiting clients.
func (r *storeComparison) fanout() error {
	took := func(one loadResult) float64 { return one.Seconds * 1e3 }
	return r.alternate(7, []figure{{"8 MiB to 64", "ms", took, goal{ratio: 1}}}, "fanout", "-c", "64")
}

// tails measures the latency of one client's GETs while many other clients are active.
func (r *storeComparison) tails() error {
	others := r.sizes([]int{256, 4000}, 1)
	busy := others[len(others)-1]
	return r.alternate(5, []figure{
		{fmt.Sprintf("p50 of a get beside %d", busy), "ms", func(one loadResult) float64 { return one.P50 * 1e3 }, goal{}},
		{
			fmt.Sprintf("p99 of a get beside %d", busy), "ms", func(one loadResult) float64 { return one.P99 * 1e3 },
			goal{ratio: 1},
		},
	}, "tail", "-c", strconv.Itoa(busy), "-t", "1000")
}

// memory measures both servers with and without idle connections.
func (r *storeComparison) memory() error {
	idle := 10 * r.sizes([]int{100, 1000}, 1)[0]
	var without, each pair
	for i, s := range r.servers {
		if _, err := r.sizeWith(s, 16); err != nil { // allocates memory that is needed only once
			return err
		}
		before, err := residentSizeOf(s.Process.Pid)
		if err != nil {
			return err
		}
		with, err := r.sizeWith(s, idle)
		if err != nil {
			return err
		}
		without.add(i, float64(before.now)/1024)
		each.add(i, float64(with.now-before.now)/float64(idle))
	}
	r.compareRow("memory without connections", "MiB", without, pair{}, goal{most: 16}, goal{})
	r.compareRow(fmt.Sprintf("memory of each of %d idle", idle), "KiB", each, pair{}, goal{most: 2}, goal{})
	return nil
}

// sizes returns those to measure: the first few with -quick, and those that -n selects.
func (r *storeComparison) sizes(all []int, quick int) []int {
	if r.quick {
		all = all[:quick]
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(n int) bool { return !r.selects(n) })
	if len(chosen) == 0 {
		return all[:1]
	}
	return chosen
}

// loadResult is a line of storeload's output. Each mode fills in some fields. Times are in seconds.
type loadResult struct {
	Op           string
	Server       int
	Operations   float64
	Seconds, CPU float64
	Clients      int
	P50, P99     float64
	Pause        float64 // the longest between two answers, in a join
}

// load runs storeload.
func (b *bench) load(mode string, args ...string) (all []loadResult, err error) {
	command := exec.Command(b.storeload, append([]string{mode}, args...)...)
	command.Stderr = os.Stderr
	output, err := command.Output()
	for lines := json.NewDecoder(bytes.NewReader(output)); err == nil && lines.More(); {
		all = append(all, loadResult{})
		err = lines.Decode(&all[len(all)-1])
	}
	if err != nil {
		return nil, fmt.Errorf("storeload %s %v: %w", mode, args, err)
	}
	return all, nil
}

// figure is a row that alternate writes.
type figure struct {
	what, unit string
	of         func(loadResult) float64
	goal       goal
}

// alternate runs a mode of storeload for both servers in turn, each time when both are idle. It writes a row
// for each figure, with the CPU time per client.
func (r *storeComparison) alternate(rounds int, figures []figure, mode string, args ...string) error {
	measured, cpu := make([]pair, len(figures)), pair{}
	more := r.nextRow(rounds)
	for round := 0; more(round); round++ {
		for turn := range r.servers {
			i := (turn + round) % len(r.servers)
			if err := r.awaitIdle(); err != nil {
				return err
			}
			all, err := r.load(mode, append([]string{"-s", r.servers[i].spec()}, args...)...)
			if err != nil {
				return err
			}
			for _, one := range all {
				for k, f := range figures {
					measured[k].add(i, f.of(one))
				}
				cpu.add(i, one.CPU/float64(one.Clients)*1e6)
			}
		}
	}
	for k, f := range figures {
		r.compareRow(f.what, f.unit, measured[k], cpu, f.goal, goal{})
	}
	return nil
}

// sizeWith returns a server's memory with a number of idle connections.
func (r *storeComparison) sizeWith(s *storeServer, connections int) (size residentSize, err error) {
	command := exec.Command(r.storeload, "idle", "-s", s.spec(), "-c", strconv.Itoa(connections))
	if _, err = command.StdinPipe(); err != nil { // without a pipe it would end at once
		return size, err
	}
	clients, err := start(command, 1)
	if err != nil {
		return size, err
	}
	size, err = residentSizeOf(s.Process.Pid)
	clients.stop()
	return size, errors.Join(err, r.awaitIdle())
}

// awaitIdle waits until both servers are idle, so that closing the connections of one measurement is not part of the
// next.
func (r *storeComparison) awaitIdle() error {
	const pause, idle, most = 20 * time.Millisecond, 500 * time.Microsecond, 500
	for range most {
		var spent [2]time.Duration
		for i := range spent {
			for _, s := range r.servers {
				now, err := cpuTime(s.Process.Pid)
				if err != nil {
					return fmt.Errorf("read the CPU time of a store (process %d): %w", s.Process.Pid, err)
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

// storeServer is a running store.
type storeServer struct {
	*measured
	addr string
}

// startStore starts a server whose first line is its address.
func startStore(argv ...string) (*storeServer, error) {
	command := exec.Command(argv[0], argv[1:]...)
	command.Stderr = os.Stderr
	server, err := start(command, 1)
	if err != nil {
		return nil, fmt.Errorf("start a store: %w", err)
	}
	addr, _, _ := strings.Cut(server.line, " ")
	if _, err := netip.ParseAddrPort(addr); err != nil {
		server.stop()
		return nil, fmt.Errorf("%v should print its address first: it said %q", argv, server.line)
	}
	return &storeServer{server, addr}, nil
}

// spec returns storeload's argument for the server.
func (s *storeServer) spec() string { return fmt.Sprintf("%s:%d", s.addr, s.Process.Pid) }

// pair has the samples of the servers of gorun and PyTorch.
type pair [2]samples

func (p *pair) add(server int, value float64) { p[server] = append(p[server], value) }

// ratio is the median of the rounds' ratios: a slow machine slows both servers of a round.
func (p *pair) ratio() float64 {
	var ratios samples
	for i, ours := range p[0][:min(len(p[0]), len(p[1]))] {
		ratios = append(ratios, ours/p[1][i])
	}
	return ratios.median()
}

// compareRow writes a row; cpu may be empty.
func (r *storeComparison) compareRow(what, unit string, of, cpu pair, want, wantCPU goal) {
	if len(of[0]) == 0 || len(of[1]) == 0 {
		r.row(what, unit, "", "", "", "", "", "", "", noFigure)
		return
	}
	cells := []any{
		what, unit, number(want.best(of[0])), number(of[0].median()), number(want.best(of[1])), number(of[1].median()),
		ratio(of[0].median(), of[1].median()), number(of.ratio()), want, want.judge(of[0], of[1]),
	}
	if cpu[0].max() > 0 && cpu[1].max() > 0 {
		cells = append(cells, number(cpu[0].median()), number(cpu[1].median()), ratio(cpu[0].median(), cpu[1].median()),
			wantCPU, wantCPU.judge(cpu[0], cpu[1]))
	}
	r.row(cells...)
}
