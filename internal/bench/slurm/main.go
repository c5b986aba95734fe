// Command slurm measures how long 4 × 4 ranks of /bin/true take in an allocation of four nodes, under gorun and under what its users
// would have typed:
//
//	sudo go run ./internal/bench/slurm -gorun bin/gorun -json build/bench/slurm.json
//
// The nodes are internal/testslurm's: a real Slurm whose slurmds all run on this machine and share its CPUs.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gorun/internal/bench"
	"gorun/internal/testneeds"
	"gorun/internal/testslurm"
)

// The size of the job.
const (
	nodes   = 4
	perNode = 4
)

// The targets: gorun to srun of the same ranks, and to srun with torchrun on each node.
const (
	srunRatio     = 1.3
	torchrunRatio = 0.1
)

// wish is what the command line asks for.
type wish struct {
	gorun, json string
	rounds      int
	inside      bool // this process is in the allocation
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("slurm: ")
	var w wish
	flag.StringVar(&w.gorun, "gorun", "bin/gorun", "the gorun to measure")
	flag.StringVar(&w.json, "json", "", "write the table to this file, too")
	flag.IntVar(&w.rounds, "rounds", 25, "number of interleaved rounds")
	flag.BoolVar(&w.inside, "inside", false, "for this program's own use")
	flag.Parse()
	run := w.outside
	if w.inside {
		run = w.inAllocation
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// outside starts Slurm and runs this program again in an allocation.
func (w *wish) outside() error {
	if err := testneeds.FindSlurm(); err != nil {
		log.Printf("left out: %v", err)
		return nil
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	cluster, err := testslurm.Open(testslurm.Config{Nodes: nodes, CPUs: perNode, Names: true})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err == nil {
		words := append([]string{"--quiet", "--nodes", strconv.Itoa(nodes), "--ntasks", strconv.Itoa(nodes * perNode), self, "-inside"}, os.Args[1:]...)
		salloc := cluster.CommandContext(ctx, "salloc", words...)
		salloc.Stdout, salloc.Stderr = os.Stdout, os.Stderr
		err = salloc.Run()
	}
	if down := cluster.Close(); err == nil {
		err = down
	}
	return err
}

// inAllocation measures.
func (w *wish) inAllocation() error {
	programs, err := bench.FindPrograms(w.gorun)
	if err != nil {
		return err
	}
	defer programs.Close()
	bench.Quiet()
	report := bench.NewReport(fmt.Sprintf("%d ranks of /bin/true on %d nodes of Slurm", nodes*perNode, nodes), "what", "runs", "min ms", "median ms", "gorun/this min", "median", "target", "verdict")
	series, err := bench.Interleave(w.rounds, w.peers(programs))
	if err != nil {
		return err
	}
	for _, s := range series {
		report.Row(row(series[0], s)...)
		if s.Cut+s.Failed > 0 {
			report.Note("%s: %d runs hung and were cut off, %d failed; both are left out", s.Name, s.Cut, s.Failed)
		}
	}
	report.Note("first line: gorun in the allocation, which starts an agent on each node by one srun; `srun gorun`: one on each node, and one per rank")
	return report.Finish(w.json)
}

// How long a run may take. Hydra hangs now and then when its ranks end at once.
const (
	runLimit      = 15 * time.Second
	torchrunLimit = 2 * time.Minute
)

// Names of those that have a target.
const (
	bySrun     = "srun -n16"
	byTorchrun = "srun torchrun"
)

func (w *wish) peers(p *bench.Programs) []bench.Peer {
	total, each, srun := strconv.Itoa(nodes*perNode), strconv.Itoa(perNode), []string{"srun", "--overlap", "--mpi=none"}
	words := func(more ...string) []string { return append(srun[:len(srun):len(srun)], more...) }
	all := []bench.Peer{
		{Name: "gorun", Argv: []string{p.Gorun, p.True}},
		{Name: bySrun, Argv: words("-n", total, p.True)},
		{Name: "srun -n4", Argv: words("-N", strconv.Itoa(nodes), "-n", strconv.Itoa(nodes), p.True)},
		{Name: "srun gorun, one per node", Argv: words("-N", strconv.Itoa(nodes), "-n", strconv.Itoa(nodes), "--ntasks-per-node", "1", p.Gorun, "-q", "--nproc-per-node", each, p.True)},
		{Name: "srun gorun, one per rank", Argv: words("-n", total, p.Gorun, "-q", p.True)},
	}
	if p.Hydra != "" {
		all = append(all, bench.Peer{Name: "hydra", Argv: []string{p.Hydra, "-n", total, p.True}})
	}
	if p.OpenMPI != "" {
		all = append(all, bench.Peer{Name: "openmpi", Argv: []string{p.OpenMPI, "--allow-run-as-root", "-n", total, p.True}})
	}
	if p.Torchrun != "" {
		all = append(all, bench.Peer{Name: byTorchrun, Runs: 3, Argv: words("-N", strconv.Itoa(nodes), "-n", strconv.Itoa(nodes), "--ntasks-per-node", "1", p.Torchrun, "--nnodes", strconv.Itoa(nodes),
			"--nproc-per-node", each, "--rdzv-id", "bench", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:"+strconv.Itoa(freePort()), "--no-python", p.True)})
	}
	for i := range all {
		all[i].Environ, all[i].Limit = os.Environ(), runLimit
		if all[i].Name == byTorchrun {
			all[i].Limit = torchrunLimit
		}
		if !filepath.IsAbs(all[i].Argv[0]) {
			all[i].Argv[0] = bench.Lookup(all[i].Argv[0])
		}
	}
	return all
}

// row compares gorun with one of the peers.
func row(ours, other bench.Series) []string {
	cells := []string{other.Name, strconv.Itoa(len(other.Walls)), bench.Millis(other.Min()), bench.Millis(other.Median()), "", "", "", ""}
	if other.Name != ours.Name && !strings.HasPrefix(other.Name, "srun gorun") {
		cells[4], cells[5] = bench.Ratio(ours.Min(), other.Min()), bench.Ratio(ours.Median(), other.Median())
	}
	if target := map[string]float64{bySrun: srunRatio, byTorchrun: torchrunRatio}[other.Name]; target != 0 {
		cells[6], cells[7] = fmt.Sprintf("≤ %g", target), string(bench.JudgeRatio(ours, other, target))
	}
	return cells
}

// freePort is one that nobody has at the moment, for torchrun, which takes no other than it is told.
func freePort() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
