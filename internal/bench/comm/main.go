// Command comm measures package comm's collectives, from Go, beside Open MPI's, MPICH's and Gloo's:
//
//	go run ./internal/bench/comm -gorun bin/gorun -json build/bench/comm.json
//	go run ./internal/bench/comm -quick -ops allreduce,barrier -ranks 2
//	go run ./internal/bench/comm -quick -ranks "" -joins "" -hosts 1,2
//
// The ranks of all peers live at the same time and sleep at a socket while it is not their turn, so that one row's batches can be interleaved
// within seconds. Every batch is the same loop in Go, C and Python (csrc/commloop.h draws it): each call has a float written into every cache
// line of its input before it, since pages that were never written are all the kernel's one page of zeros, and lines that nobody writes stay in
// both CPUs' caches; the writing is timed alone as well and taken off. A batch counts as long as its slowest rank. Between batches a probe looks
// whether the machine is as fast as it can be; batches beside a slow probe are made again, and rows that stay slow are marked.
//
// With -n per CPU one rank every program's ranks are bound to a CPU each; with more ranks than CPUs Open MPI yields when idle (its documented
// setting for that), MPICH has none.
//
// With -stranger a process keeps one CPU busy beside every batch of everybody. With -hosts the ranks are on two hosts: network namespaces with a
// cable between, made by this program, which needs root for it; there "raw" is one TCP connection and nothing else (csrc/commraw.c). With -overlap
// examples/overlap runs. All three are part of a run without -quick. A run that SIGINT or SIGTERM ends leaves nothing behind.
//
// Where Debian's Open MPI comes without headers, build/openmpi may hold them:
//
//	apt-get download libopenmpi-dev && dpkg-deb -x libopenmpi-dev_*.deb build/openmpi
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/internal/bench"
)

// options is what the command line says.
type options struct {
	gorun, json string
	operations  []string
	sizes       []int
	ranks       []int
	joins       []int
	strangers   []int
	hosts       []int
	hostSizes   []int
	overlaps    []int
	peers       []string
	rounds      int
	batch       time.Duration
	patience    time.Duration
	flag        time.Duration
}

const largest = 64 << 20

var (
	allOperations = []string{"allreduce", "reduce", "broadcast", "allgather", "reducescatter", "alltoall", "sendrecv", "barrier"}
	allSizes      = "4,8,64,256,1024,4096,16384,65536,262144,1048576,4194304,16777216,67108864"
	quickSizes    = "8,4096,65536,1048576,67108864"
	hostSizes     = "4,4096,65536,1048576,67108864"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("comm: ")
	var o options
	var l lists
	asRank := flag.Int("rank", -1, "be a rank with buffers of so many bytes (the program starts itself so)")
	asHolder := flag.String("hold", "", "hold the namespaces of a host of this name until stdin ends (the program starts itself so)")
	asStranger := flag.Int("busy", -1, "keep that CPU busy (the program starts itself so)")
	o.define(&l)
	quick := flag.Bool("quick", false, "two ranks, few sizes, short batches, no stranger, hosts and overlap, where no other option says otherwise: a minute")
	flag.Parse()
	if *quick {
		hurry()
	}
	var err error
	switch {
	case *asRank >= 0:
		err = beRank(*asRank)
	case *asHolder != "":
		err = hold(*asHolder)
	case *asStranger >= 0:
		err = beBusy(*asStranger)
	default:
		if err = o.parse(l); err == nil {
			err = run(o)
		}
	}
	if err != nil {
		log.Fatal(err)
	}
}

// lists are options before they are read.
type lists struct {
	operations, sizes, ranks, joins, peers, strangers, hosts, hostSizes, overlaps string
}

func (o *options) define(l *lists) {
	flag.StringVar(&o.gorun, "gorun", "bin/gorun", "the gorun that starts comm's and Gloo's ranks")
	flag.StringVar(&o.json, "json", "", "write tables and samples to this file, too")
	flag.StringVar(&l.operations, "ops", strings.Join(allOperations, ","), "only these operations")
	flag.StringVar(&l.sizes, "sizes", allSizes, "bytes of the vector; for operations with a block for each rank of all blocks together")
	flag.StringVar(&l.ranks, "ranks", "2,4", "numbers of ranks; empty: none")
	flag.StringVar(&l.joins, "joins", "4,16,64", "numbers of ranks to measure joining with; empty: don't")
	flag.StringVar(&l.strangers, "stranger", "4", "numbers of ranks to measure with a stranger beside them, a process that keeps one CPU busy; empty: don't")
	flag.StringVar(&l.hosts, "hosts", "1,2", "numbers of ranks a host, to measure between two hosts: network namespaces with a cable between, which needs root; empty: don't")
	flag.StringVar(&l.hostSizes, "host-sizes", hostSizes, "bytes of the vector between hosts")
	flag.StringVar(&l.overlaps, "overlap", "2", "numbers of ranks to run examples/overlap with; empty: don't")
	flag.StringVar(&l.peers, "peers", "openmpi,mpich,gloo,engine", "whom to measure beside comm; engine is comm's C code without Go")
	flag.IntVar(&o.rounds, "rounds", 9, "batches of each peer in a row")
	flag.DurationVar(&o.batch, "batch", 20*time.Millisecond, "how long a batch should last")
	flag.DurationVar(&o.patience, "patience", 2*time.Minute, "how long to wait in all for fast moments of the machine, and to measure again what fell into slow ones")
	flag.DurationVar(&o.flag, "flag", 0, "what a flag's way to another CPU and back takes in fast moments, such as 110ns; 0: find out (a run that has no fast moments can't)")
}

// hurry sets what -quick means, apart from options that were given.
func hurry() {
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{
		"sizes": quickSizes, "ranks": "2", "joins": "4", "stranger": "", "hosts": "", "overlap": "", "rounds": "3", "batch": "8ms", "patience": "8s",
	} {
		if !given[name] {
			_ = flag.Set(name, value)
		}
	}
}

func (o *options) parse(l lists) (err error) {
	if o.operations, err = words(l.operations, allOperations); err != nil {
		return fmt.Errorf("-ops: %w", err)
	}
	if o.peers, err = words(l.peers, allPeers); err != nil {
		return fmt.Errorf("-peers: %w", err)
	}
	for _, n := range []struct {
		option, list string
		least, most  int
		all          *[]int
	}{
		{"-sizes", l.sizes, 4, largest, &o.sizes},
		{"-ranks", l.ranks, 1, 64, &o.ranks},
		{"-joins", l.joins, 1, 1024, &o.joins},
		{"-stranger", l.strangers, 1, 64, &o.strangers},
		{"-hosts", l.hosts, 1, 32, &o.hosts},
		{"-host-sizes", l.hostSizes, 4, largest, &o.hostSizes},
		{"-overlap", l.overlaps, 2, 64, &o.overlaps},
	} {
		if *n.all, err = numbers(n.list, n.least, n.most); err != nil {
			return fmt.Errorf("%s: %w", n.option, err)
		}
	}
	if o.rounds < 1 {
		return fmt.Errorf("-rounds: %d: at least one is needed", o.rounds)
	}
	return nil
}

// words splits a list and refuses what is not one of all.
func words(list string, all []string) (chosen []string, err error) {
	for word := range strings.SplitSeq(list, ",") {
		switch {
		case word == "":
		case !slices.Contains(all, word):
			return nil, fmt.Errorf("%q is none of %s", word, strings.Join(all, ", "))
		default:
			chosen = append(chosen, word)
		}
	}
	return chosen, nil
}

// numbers reads a list of numbers between least and most.
func numbers(list string, least, most int) (all []int, err error) {
	for word := range strings.SplitSeq(list, ",") {
		if word == "" {
			continue
		}
		n, err := strconv.Atoi(word)
		if err != nil || n < least || n > most {
			return nil, fmt.Errorf("%q is no number from %d to %d", word, least, most)
		}
		all = append(all, n)
	}
	return all, nil
}

// results are everything that a run measured.
type results struct {
	rows, hosts []*row
	joins       []joining
	overlaps    []overlap
}

func run(o options) error {
	debug.SetGCPercent(-1)
	end := newCustodian()
	defer end.close()
	begun := time.Now()
	dir, release, err := newFolder(os.TempDir())
	if err != nil {
		return err
	}
	end.finally(release)
	crew, err := findPeers(dir, o.gorun, o.peers)
	if err != nil {
		return err
	}
	probe := newProbe(o.patience, arenaBytes)
	probe.known = o.flag
	measured, err := measureEverything(o, crew, probe)
	if err != nil {
		return err
	}
	tables := measured.tables()
	for _, note := range crew.notes {
		tables[0].Note("%s", note)
	}
	usual := probe.usual()
	tables[0].Note("the probe in fast moments: a copy of %d MiB %.2f ms, a flag's way to the other CPU and back %d ns; fast were %.0f %% of %d probes; the run took %s",
		probeBytes>>20, usual.Memory.Seconds()*1e3, usual.Flag.Nanoseconds(), probe.share()*100, len(probe.flags), time.Since(begun).Round(time.Second))
	return finish(o.json, tables, measured, crew)
}

func measureEverything(o options, c *crew, p *probe) (r results, err error) {
	for _, ranks := range o.ranks {
		rows, err := measureOneHost(o, c, p, scene{ranks: ranks})
		if err != nil {
			return r, err
		}
		r.rows = append(r.rows, rows...)
	}
	for _, ranks := range o.strangers {
		rows, err := measureBesideStranger(o, c, p, ranks)
		if err != nil {
			return r, err
		}
		r.rows = append(r.rows, rows...)
	}
	if r.hosts, err = measureHosts(o, c, p); err != nil {
		return r, err
	}
	if r.overlaps, err = measureOverlap(c, o.overlaps); err != nil {
		return r, err
	}
	r.joins, err = measureJoining(c, o.joins)
	return r, err
}

func measureBesideStranger(o options, c *crew, p *probe, ranks int) ([]*row, error) {
	beside, err := newStranger(c.self)
	if err != nil {
		return nil, err
	}
	defer beside.close()
	return measureOneHost(o, c, p, scene{ranks: ranks, stranger: beside})
}

// tables are at least one, the first with the notes.
func (r results) tables() []*bench.Report {
	var tables []*bench.Report
	if len(r.rows) > 0 {
		tables = append(tables, collectivesTable(r.rows))
		if other := otherTable(r.rows); len(other.Rows) > 0 {
			tables = append(tables, other)
		}
	}
	if len(r.hosts) > 0 {
		tables = append(tables, hostsTable(r.hosts))
	}
	if len(r.overlaps) > 0 {
		tables = append(tables, overlapTable(r.overlaps))
	}
	if len(r.joins) > 0 {
		tables = append(tables, joiningTable(r.joins))
	}
	if len(tables) == 0 {
		tables = append(tables, bench.NewReport("nothing was measured"))
	}
	return tables
}

// finish prints the tables and writes them with every sample.
func finish(path string, tables []*bench.Report, r results, crew *crew) error {
	for _, table := range tables {
		if err := table.Print(os.Stdout); err != nil {
			return err
		}
	}
	if path == "" {
		return nil
	}
	body, err := json.MarshalIndent(map[string]any{
		"tables": tables, "rows": r.rows, "hosts": r.hosts, "overlap": r.overlaps, "joining": r.joins, "commands": crew.commands,
	}, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(body, '\n'), 0o644)
}
