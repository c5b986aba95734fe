// Command bench measures gorun beside its peers: the same work, interleaved round by round in one run, so that a
// machine that is slow for a while is slow for everybody. Minima say what a program costs, medians what its user waits;
// both are printed as ratios beside the target that they should reach.
//
//	go run ./internal/bench [-gorun bin/gorun] [-json build/bench] [WORKLOAD ...]
//
// Nothing here is a test: a figure depends on the machine, and a test that can fail because a neighbour is busy teaches
// people to ignore it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// workload is something to measure. Its peers stand in the function.
type workload struct {
	name, measures string
	run            func(*bench) error
}

// workloads in the order of a whole run. (A function, since a workload may start this program again.)
func workloads() []workload {
	return []workload{
		{"launch", "N × /bin/true on this host", launches},
		{"mpi", "an MPI program that starts, meets and ends", mpiLaunches},
		{"join", "from exec to the end of the first barrier", joins},
		{"pytorch", "4 ranks of PyTorch: init_process_group, all_reduce, exit", pytorch},
		{"hosts", "/bin/true on each of N hosts over SSH", overHosts},
		{"slurm", "16 × /bin/true on 4 nodes of Slurm", inSlurm},
		{"memory", "a launcher whose ranks stand still", memory},
		{"output", "4 ranks that print 256 MB each, to /dev/null", output},
		{"store", "the rendezvous store beside PyTorch's", stores},
		{"collectives", "calls of package comm", collectives},
	}
}

// bench is one run of the program.
type bench struct {
	*programs
	json   string  // a folder for the tables, or empty
	rounds float64 // multiplies the number of rounds
	only   string  // sizes, separated by commas, or empty
	with   string  // names of peers, separated by commas, or empty
	quick  bool
	inside string // where this process was started again: the folder of a set of hosts, or "slurm"

	reports []*report
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	if len(os.Args) == 3 && os.Args[1] == "as-rank" {
		if err := beRank(os.Args[2]); err != nil {
			log.Fatal(err)
		}
		return
	}
	b := &bench{}
	gorun := flag.String("gorun", "bin/gorun", "measure this `program`")
	flag.StringVar(&b.json, "json", "", "write each workload's tables to a file in this `folder`, too")
	flag.Float64Var(&b.rounds, "rounds", 1, "multiply the number of rounds by `F`")
	flag.StringVar(&b.only, "n", "", "measure only these `sizes` (ranks, hosts, connections), such as 1,16")
	flag.StringVar(&b.with, "peers", "", "compare with these `peers` only, such as hydra,openmpi")
	flag.BoolVar(&b.quick, "quick", false, "measure fewer sizes of store and collectives")
	flag.StringVar(&b.inside, "inside", "", "for this program's own use")
	flag.Usage = usage
	flag.Parse()
	if err := b.run(*gorun, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func usage() {
	fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./internal/bench [OPTIONS] [WORKLOAD ...]\n\nworkloads:")
	for _, w := range workloads() {
		fmt.Fprintf(flag.CommandLine.Output(), "  %-12s %s\n", w.name, w.measures)
	}
	fmt.Fprintln(flag.CommandLine.Output(), "\noptions:")
	flag.PrintDefaults()
}

// run measures the workloads of these names, or all.
func (b *bench) run(gorun string, names []string) error {
	all := workloads()
	for _, name := range names {
		if !slices.ContainsFunc(all, func(w workload) bool { return w.name == name }) {
			return fmt.Errorf("%q is not a workload: go run ./internal/bench -h lists them", name)
		}
	}
	// not in /tmp: hosts in namespaces see it, too
	dir, err := filepath.Abs(fmt.Sprint("build/bench/run-", os.Getpid()))
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return err
	}
	defer tidy(dir)()
	if b.programs, err = findPrograms(dir, gorun); err != nil {
		return err
	}
	runtime.LockOSThread() // one thread starts and waits; what it starts dies with it
	debug.SetGCPercent(-1)
	for _, w := range all {
		if len(names) > 0 && !slices.Contains(names, w.name) {
			continue
		}
		b.reports = nil
		if err := w.run(b); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if err := b.finish(w.name); err != nil {
			return err
		}
	}
	return nil
}

// table begins a table of the workload that runs.
func (b *bench) table(title string, columns ...string) *report {
	r := newReport(title, columns...)
	b.reports = append(b.reports, r)
	return r
}

// finish prints the workload's tables, and writes them where the user wants them.
func (b *bench) finish(name string) error {
	for _, r := range b.reports {
		if err := r.print(os.Stdout); err != nil {
			return err
		}
	}
	if b.json == "" || len(b.reports) == 0 {
		return nil
	}
	body, err := json.MarshalIndent(b.reports, "", "  ")
	if err == nil {
		err = os.MkdirAll(b.json, 0o755)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.json, name+".json"), append(body, '\n'), 0o644)
}

// wanted reports whether a size is to be measured.
func (b *bench) wanted(size int) bool { return listed(b.only, strconv.Itoa(size)) }

// count scales a number of rounds.
func (b *bench) count(rounds int) int { return max(int(float64(rounds)*b.rounds), 1) }

// listed reports whether a list, if there is one, holds a word.
func listed(list, word string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), word)
}
