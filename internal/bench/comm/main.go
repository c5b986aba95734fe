// Command comm measures package comm's collectives, from Go, beside Open MPI's, MPICH's and Gloo's:
//
//	go run ./internal/bench/comm -gorun bin/gorun -json build/bench/comm.json
//	go run ./internal/bench/comm -quick -ops allreduce,barrier -ranks 2
//
// The ranks of all peers live at the same time and sleep at a socket while it is not their turn, so that one row's batches can be interleaved
// within seconds. Every batch is the same loop in Go, C and Python (csrc/commloop.h draws it): each call has a float written into every cache
// line of its input before it, since pages that were never written are all the kernel's one page of zeros, and lines that nobody writes stay in
// both CPUs' caches; the writing is timed alone as well and taken off. A batch counts as long as its slowest rank. Between batches a probe looks
// whether the machine is as fast as it can be; batches beside a slow probe are made again, and rows that stay slow are marked.
//
// With -n per CPU one rank every program's ranks are bound to a CPU each; with more ranks than CPUs Open MPI yields when idle (its documented
// setting for that), MPICH has none. Where Debian's Open MPI comes without headers, build/openmpi may hold them:
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
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("comm: ")
	var o options
	asRank := flag.Int("rank", -1, "be a rank with buffers of so many bytes (the program starts itself so)")
	flag.StringVar(&o.gorun, "gorun", "bin/gorun", "the gorun that starts comm's and Gloo's ranks")
	flag.StringVar(&o.json, "json", "", "write tables and samples to this file, too")
	operations := flag.String("ops", strings.Join(allOperations, ","), "only these operations")
	sizes := flag.String("sizes", allSizes, "bytes of the vector; for operations with a block for each rank of all blocks together")
	ranks := flag.String("ranks", "2,4", "numbers of ranks")
	joins := flag.String("joins", "4,16,64", "numbers of ranks to measure joining with; empty: don't")
	peers := flag.String("peers", "openmpi,mpich,gloo,engine", "whom to measure beside comm; engine is comm's C code without Go")
	flag.IntVar(&o.rounds, "rounds", 9, "batches of each peer in a row")
	flag.DurationVar(&o.batch, "batch", 20*time.Millisecond, "how long a batch should last")
	flag.DurationVar(&o.patience, "patience", 2*time.Minute, "how long to wait in all for fast moments of the machine, and to measure again what fell into slow ones")
	flag.DurationVar(&o.flag, "flag", 0, "what a flag's way to another CPU and back takes in fast moments, such as 110ns; 0: find out (a run that has no fast moments can't)")
	quick := flag.Bool("quick", false, "two ranks, few sizes, short batches, where no other option says otherwise: a minute")
	flag.Parse()
	if *quick {
		hurry()
	}
	if *asRank >= 0 {
		if err := beRank(*asRank); err != nil {
			log.Fatal(err)
		}
		return
	}
	err := o.parse(*operations, *sizes, *ranks, *joins, *peers)
	if err == nil {
		err = run(o)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// hurry sets what -quick means, apart from options that were given.
func hurry() {
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"sizes": quickSizes, "ranks": "2", "joins": "4", "rounds": "3", "batch": "8ms", "patience": "8s"} {
		if !given[name] {
			_ = flag.Set(name, value)
		}
	}
}

func (o *options) parse(operations, sizes, ranks, joins, peers string) (err error) {
	if o.operations, err = words(operations, allOperations); err != nil {
		return fmt.Errorf("-ops: %w", err)
	}
	if o.peers, err = words(peers, allPeers); err != nil {
		return fmt.Errorf("-peers: %w", err)
	}
	if o.sizes, err = numbers(sizes, 4, largest); err != nil {
		return fmt.Errorf("-sizes: %w", err)
	}
	if o.ranks, err = numbers(ranks, 1, 64); err != nil {
		return fmt.Errorf("-ranks: %w", err)
	}
	if o.joins, err = numbers(joins, 1, 1024); err != nil {
		return fmt.Errorf("-joins: %w", err)
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

func run(o options) error {
	debug.SetGCPercent(-1)
	begun := time.Now()
	crew, err := findPeers(o.gorun, o.peers)
	if err != nil {
		return err
	}
	defer crew.close()
	probe := newProbe(o.patience, arenaBytes)
	probe.known = o.flag
	var rows []*row
	for _, ranks := range o.ranks {
		measured, err := measureAll(o, crew, probe, ranks)
		if err != nil {
			return err
		}
		rows = append(rows, measured...)
	}
	joins, err := measureJoining(crew, o.joins)
	if err != nil {
		return err
	}
	tables := []*bench.Report{collectivesTable(rows), otherTable(rows)}
	if len(joins) > 0 {
		tables = append(tables, joiningTable(joins))
	}
	for _, note := range crew.notes {
		tables[0].Note("%s", note)
	}
	usual := probe.usual()
	tables[0].Note("the probe in fast moments: a copy of %d MiB %.2f ms, a flag's way to the other CPU and back %d ns; fast were %.0f %% of %d probes; the run took %s",
		probeBytes>>20, usual.Memory.Seconds()*1e3, usual.Flag.Nanoseconds(), probe.share()*100, len(probe.flags), time.Since(begun).Round(time.Second))
	return finish(o.json, tables, rows, joins, crew)
}

// finish prints the tables and writes them with every sample.
func finish(path string, tables []*bench.Report, rows []*row, joins []joining, crew *crew) error {
	for _, table := range tables {
		if err := table.Print(os.Stdout); err != nil {
			return err
		}
	}
	if path == "" {
		return nil
	}
	body, err := json.MarshalIndent(map[string]any{"tables": tables, "rows": rows, "joining": joins, "commands": crew.commands}, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(body, '\n'), 0o644)
}
