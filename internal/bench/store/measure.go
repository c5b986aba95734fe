package main

import (
	"fmt"
	"slices"
	"strconv"
)

// operations measures each operation at each number of connections. storeload has both servers take turns within each round.
func (r *run) operations() error {
	for _, connections := range r.ops {
		progress("operations over %d connections", connections)
		if err := r.pair.settle(); err != nil {
			return err
		}
		results, err := r.load("ops", "-s", r.pair[0].spec(), "-s", r.pair[1].spec(),
			"-c", strconv.Itoa(connections), "-r", strconv.Itoa(r.opRounds), "-t", r.opMillis, "-w", "30")
		if err != nil {
			return err
		}
		for _, op := range []string{"set", "get", "add", "check", "waitget"} {
			r.operation(op, connections, results)
		}
	}
	return nil
}

// operation writes the row of one operation.
func (r *run) operation(op string, connections int, results []result) {
	rate, cpu := figures{more: true}, figures{}
	for _, one := range results {
		if one.Op == op && one.Operations > 0 {
			rate.add(one.Server, one.Operations/one.Seconds/1e3)
			cpu.add(one.Server, one.CPU/one.Operations*1e6)
		}
	}
	goals := goals{ratio: 1.05, cpu: 0.95}
	if connections < 16 {
		goals.ratio, goals.cpu = 1, 0
	}
	r.row(fmt.Sprintf("%s × %d", op, connections), "k/s", rate, cpu, goals)
}

// joinAll measures the world's coming together.
func (r *run) joinAll() error {
	for _, j := range r.joins {
		progress("%d clients join", j.clients)
		goal := goals{ratio: 1}
		if j.clients > 1000 {
			goal.ratio = 1.05
		}
		if err := r.join(fmt.Sprintf("join × %d", j.clients), j, goal, false); err != nil {
			return err
		}
	}
	return nil
}

// join measures one size of the world; opened says that the opening of the servers counts.
func (r *run) join(what string, j joinsPlan, goal goals, opened bool, args ...string) error {
	took, cpu := figures{}, figures{}
	err := r.rounds(j.rounds, func(at int, one result) {
		if opened {
			one.Seconds += r.pair[at].opening
		}
		took.add(at, one.Seconds)
		cpu.add(at, one.CPU/float64(one.Clients)*1e6)
	}, "join", append([]string{"-c", strconv.Itoa(j.clients)}, args...)...)
	if err == nil {
		r.row(what, "s", took, cpu, goal)
	}
	return err
}

// fanout measures how long one value of 8 MiB takes to 64 waiting clients.
func (r *run) fanout() error {
	progress("one large value to many")
	took, cpu := figures{}, figures{}
	err := r.rounds(r.fanoutRounds, func(at int, one result) {
		took.add(at, one.Seconds*1e3)
		cpu.add(at, one.CPU/float64(one.Clients)*1e6)
	}, "fanout", "-c", "64")
	if err == nil {
		r.row("8 MiB to 64", "ms", took, cpu, goals{ratio: 1})
	}
	return err
}

// tails measures what one client's GETs take while many others do nothing else.
func (r *run) tails() error {
	progress("one client beside %d", r.tail)
	p50, p99 := figures{}, figures{}
	err := r.rounds(r.tailRounds, func(at int, one result) {
		p50.add(at, one.P50*1e3)
		p99.add(at, one.P99*1e3)
	}, "tail", "-c", strconv.Itoa(r.tail), "-t", r.tailMillis)
	if err == nil {
		r.row(fmt.Sprintf("p50 of a get beside %d", r.tail), "ms", p50, figures{}, goals{})
		r.row(fmt.Sprintf("p99 of a get beside %d", r.tail), "ms", p99, figures{}, goals{ratio: 1})
	}
	return err
}

// memory measures both servers without and with idle connections.
func (r *run) memory() error {
	progress("memory")
	without, each := figures{}, figures{}
	for at, s := range r.pair {
		if _, err := r.held(s, 16); err != nil { // whatever is made once is made
			return err
		}
		before, err := s.memory()
		if err != nil {
			return err
		}
		with, err := r.held(s, r.idle)
		if err != nil {
			return err
		}
		without.add(at, float64(before)/1024)
		each.add(at, float64(with-before)/float64(r.idle))
	}
	r.row("memory without connections", "MiB", without, figures{}, goals{most: 16})
	r.row(fmt.Sprintf("memory of each of %d idle", r.idle), "KiB", each, figures{}, goals{most: 2})
	return nil
}

// silent has the world join where name servers are what they can be: silent, or losing an answer at times. Both servers are opened
// anew for it, which belongs to what is measured: PyTorch's looks names up there, too, and gives that up after a look-up failed.
func (r *run) silent() error {
	for _, row := range []struct {
		what string
		nth  int
	}{{"DNS silent", 1}, {"DNS loses 1 in 25", 25}} {
		what := fmt.Sprintf("open, join × %d, %s", r.silentClients, row.what)
		progress("%s", what)
		if err := r.joinAmid(what, row.nth); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) joinAmid(what string, nth int) error {
	names, err := serveNames(nth)
	if err == nil {
		defer names.Close()
		err = canSet(namesFromOurs)
	}
	if err != nil {
		r.report.Note("%s: left out, it needs more rights: %v", what, err)
		return nil
	}
	before := r.pair
	defer func() { r.pair = before }()
	if r.pair, err = startPair(r.programs, namesFromOurs); err != nil {
		return err
	}
	defer r.pair.end()
	// A source address that /etc/hosts does not know, as those of other hosts are.
	return r.join(what, joinsPlan{r.silentClients, 1}, goals{ratio: 0.02}, true, "-a", "127.0.0.2")
}

// figures are one quantity of both servers, in the order of pair.
type figures struct {
	of   [2][]float64
	more bool // more is better
}

func (f *figures) add(server int, value float64) { f.of[server] = append(f.of[server], value) }

func (f *figures) none() bool { return len(f.of[0]) == 0 || len(f.of[1]) == 0 }

func (f *figures) best(server int) float64 {
	if f.more {
		return slices.Max(f.of[server])
	}
	return slices.Min(f.of[server])
}

func (f *figures) median(server int) float64 {
	sorted := slices.Sorted(slices.Values(f.of[server]))
	return sorted[len(sorted)/2]
}

// paired is the median of gorun's figure to libuv's in each round: what slows the machine for some rounds slows both.
func (f *figures) paired() float64 {
	var ratios []float64
	for i := range min(len(f.of[0]), len(f.of[1])) {
		ratios = append(ratios, f.of[0][i]/f.of[1][i])
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

// reaches reports whether a is good enough beside b.
func (f *figures) reaches(a, b, ratio float64) bool {
	if f.more {
		return a >= ratio*b
	}
	return a <= ratio*b
}
