// Command bench compares gorun with its peers at the same work. It interleaves them round by round in one run, so
// that a machine that is slow for a while slows all of them. Minima show what a program costs, medians what its user
// waits for. Both are printed as ratios, with the targets that they should reach.
//
//	go run ./internal/bench [-gorun bin/gorun] [-json build/bench] [WORKLOAD ...]
//
// Nothing here is a test: figures depend on the machine, and a test that fails because of a busy neighbour gets
// ignored.
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
	"time"
)

// workload is a named measurement. Its function defines the peers.
type workload struct {
	name, measures string
	minutes        float64 // that it takes on two idle CPUs with -quick
	rows           int     // that it measures then, each in several rounds
	run            func(*bench) error
}

// workloads are in the order of a complete run. A variable would be an initialisation cycle: workloads start main
// again.
func workloads() []workload {
	return []workload{
		{"launch", "N × /bin/true on this host", 4, 5, launches},
		{"mpi", "an MPI program that starts, meets and ends", 3, 6, mpiLaunches},
		{"join", "from exec to the end of the first barrier", 1.5, 3, joins},
		{"pytorch", "4 ranks of PyTorch: init_process_group, all_reduce, exit", 1.5, 1, pytorch},
		{"hosts", "/bin/true on each of N hosts over SSH", 5, 8, overHosts},
		{"slurm", "16 × /bin/true on 4 nodes of Slurm", 3, 1, inSlurm},
		{"memory", "a launcher whose ranks stand still", 1, 1, memory},
		{"output", "4 ranks that print 256 MB each, to /dev/null", 0.5, 1, output},
		{"store", "the rendezvous store beside PyTorch's", 4, 4, stores},
		{"collectives", "calls of package comm", 6, 86, collectives},
	}
}

// bench is one run of the program.
type bench struct {
	*programs
	json   string  // a directory for the tables, or ""
	rounds float64 // multiplies the number of rounds
	only   string  // sizes, separated by commas, or ""
	with   string  // names of peers, separated by commas, or ""
	quick  bool
	page   bool   // print missed targets alone
	inside string // where this program was started again: the directory of a set of hosts, or "slurm"

	until time.Time // when the workload's time is over; zero: never
	rows  int       // of it that are not measured yet

	reports []*report
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	if len(os.Args) == 3 && os.Args[1] == "as-rank" {
		if err := runRank(os.Args[2]); err != nil {
			log.Fatal(err)
		}
		return
	}
	b := &bench{}
	gorun := flag.String("gorun", "bin/gorun", "measure this `program`")
	flag.StringVar(&b.json, "json", "", "write each workload's tables to a file in this `directory`, too")
	flag.Float64Var(&b.rounds, "rounds", 1, "multiply the number of rounds by `F`")
	flag.StringVar(&b.only, "n", "", "measure only these `sizes` (ranks, hosts, connections), such as 1,16")
	flag.StringVar(&b.with, "peers", "", "compare with these `peers` only, such as hydra,openmpi")
	flag.BoolVar(&b.quick, "quick", false, "measure fewer sizes of store and collectives")
	flag.BoolVar(&b.page, "page", false, "print only what misses its target")
	within := flag.Duration("within", 0, "measure fewer rounds where all would take longer than `D`")
	flag.StringVar(&b.inside, "inside", "", "internal: where this program was started again")
	flag.Usage = usage
	flag.Parse()
	if err := b.run(*gorun, *within, flag.Args()); err != nil {
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

// run measures the named workloads, or all.
func (b *bench) run(gorun string, within time.Duration, names []string) error {
	all, end := workloads(), time.Now().Add(within)
	for _, name := range names {
		if !slices.ContainsFunc(all, func(w workload) bool { return w.name == name }) {
			return fmt.Errorf("%q is not a workload: go run ./internal/bench -h lists them", name)
		}
	}
	// hosts in namespaces do not see /tmp
	dir, err := filepath.Abs(fmt.Sprint("build/bench/run-", os.Getpid()))
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return err
	}
	defer cleanUpAtExit(dir)()
	if b.programs, err = findPrograms(dir, gorun); err != nil {
		return err
	}
	runtime.LockOSThread() // Pdeathsig is bound to the thread that starts a process
	debug.SetGCPercent(-1)
	all = slices.DeleteFunc(all, func(w workload) bool { return len(names) > 0 && !slices.Contains(names, w.name) })
	for i, w := range all {
		if within > 0 {
			b.until = time.Now().Add(time.Duration(float64(time.Until(end)) * w.minutes / minutes(all[i:])))
		}
		b.reports, b.rows = nil, w.rows
		if err := w.run(b); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if err := b.writeTables(w.name); err != nil {
			return err
		}
	}
	return nil
}

func minutes(all []workload) (sum float64) {
	for _, w := range all {
		sum += w.minutes
	}
	return sum
}

// table starts a table of the current workload.
func (b *bench) table(title string, columns ...string) *report {
	r := newReport(title, columns...)
	b.reports = append(b.reports, r)
	return r
}

// writeTables prints the workload's tables and, with -json, writes them to a file.
func (b *bench) writeTables(name string) error {
	for _, r := range b.reports {
		shown := r
		if b.page {
			shown = r.missed()
		}
		if err := shown.print(os.Stdout); err != nil {
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

// selects reports whether -n selects a size.
func (b *bench) selects(size int) bool { return listed(b.only, strconv.Itoa(size)) }

// scale applies -rounds.
func (b *bench) scale(rounds int) int { return max(int(float64(rounds)*b.rounds), 1) }

// nextRow starts a row. The function that it returns says whether to measure another round: one at least, and no more
// when the row has had its share of the workload's time.
func (b *bench) nextRow(rounds int) (more func(round int) bool) {
	rounds = b.scale(rounds)
	end := time.Now().Add(time.Until(b.until) / time.Duration(max(b.rows, 1)))
	b.rows--
	return func(round int) bool {
		return round < rounds && (round <= 0 || b.until.IsZero() || time.Now().Before(end))
	}
}

// listed reports whether a comma-separated list is empty or has a word.
func listed(list, word string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), word)
}
