// Command launch measures how long N × /bin/true takes under gorun and under its peers:
//
//	go run ./internal/bench/launch -gorun bin/gorun -json build/bench/launch.json
//
// The peers are MPICH's Hydra, Open MPI's mpirun, torchrun, a bare C loop with two pipes a rank (the floor), and gorun without
// MPI's start-up protocols, which may cost a program that uses none hardly anything. Open MPI 4 hangs for ever in many runs with 64 ranks or more (ranks that end before it has registered them): those are cut off, counted and left
// out.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/internal/bench"
)

// size is one number of ranks and how often each kind of peer runs it.
type size struct{ ranks, rounds, openMPI, torchrun int }

var sizes = []size{
	{1, 200, 20, 5},
	{4, 200, 20, 5},
	{16, 100, 20, 5},
	{64, 60, 10, 0},
	{256, 30, 6, 0},
}

// goal is what gorun should reach against a peer: a ratio of at most ratio, or, where above is set, at most that much longer.
type goal struct {
	ratio float64
	above time.Duration
}

// goals by peer and number of ranks.
var goals = map[string]map[int]goal{
	"hydra":    {1: {ratio: 0.8}, 4: {ratio: 0.75}, 16: {ratio: 0.85}, 64: {ratio: 0.85}, 256: {ratio: 0.65}},
	"forkloop": {1: {above: 2 * time.Millisecond}, 4: {above: 2 * time.Millisecond}, 16: {ratio: 1.3}, 64: {ratio: 1.05}, 256: {ratio: 0.95}},
	"openmpi":  {1: {ratio: 0.25}, 4: {ratio: 0.25}, 16: {ratio: 0.25}, 64: {ratio: 0.25}, 256: {ratio: 0.25}},
	"mpi=none": {1: {ratio: 1.05}, 4: {ratio: 1.05}, 16: {ratio: 1.05}, 64: {ratio: 1.05}, 256: {ratio: 1.05}},
	"torchrun": {1: {ratio: 0.005}, 4: {ratio: 0.005}, 16: {ratio: 0.01}},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("launch: ")
	gorun := flag.String("gorun", "bin/gorun", "the gorun to measure")
	asJSON := flag.String("json", "", "write the table to this file, too")
	scale := flag.Float64("rounds", 1, "multiply the number of rounds by this")
	only := flag.String("n", "", "only these numbers of ranks, such as 1,16")
	against := flag.String("peers", "", "only these peers, such as hydra,mpi=none")
	flag.Parse()
	if err := run(*gorun, *asJSON, *scale, *only, *against); err != nil {
		log.Fatal(err)
	}
}

func run(gorun, asJSON string, scale float64, only, against string) error {
	programs, err := bench.FindPrograms(gorun)
	if err != nil {
		return err
	}
	defer programs.Close()
	bench.Quiet()

	report := bench.NewReport("launch of N × /bin/true", "N", "peer", "runs", "min ms", "median ms", "gorun/peer min", "median", "target", "verdict")
	for _, missing := range programs.Missing() {
		report.Note("not installed here, so not compared: %s", missing)
	}
	for _, s := range sizes {
		if !wanted(only, s.ranks) {
			continue
		}
		s.rounds = max(int(float64(s.rounds)*scale), 1)
		series, err := bench.Interleave(s.rounds, chosen(against, peers(programs, s)))
		if err != nil {
			return err
		}
		add(report, s.ranks, series)
	}
	return report.Finish(asJSON)
}

// wanted reports whether a comma-separated list, if there is one, holds n.
func wanted(list string, n int) bool {
	return list == "" || strings.Contains(","+list+",", ","+strconv.Itoa(n)+",")
}

// chosen is gorun and those of the peers that a comma-separated list, if there is one, names.
func chosen(list string, all []bench.Peer) []bench.Peer {
	if list == "" {
		return all
	}
	return slices.DeleteFunc(all, func(p bench.Peer) bool { return p.Name != "gorun" && !strings.Contains(","+list+",", ","+p.Name+",") })
}

// peers returns gorun first and then whoever is installed.
func peers(p *bench.Programs, s size) []bench.Peer {
	n := strconv.Itoa(s.ranks)
	environ := os.Environ()
	all := []bench.Peer{
		{Name: "gorun", Argv: []string{p.Gorun, "-n", n, p.True}},
		{Name: "mpi=none", Argv: []string{p.Gorun, "--mpi=none", "-n", n, p.True}},
		{Name: "forkloop", Argv: []string{p.Forkloop, n, p.True}},
	}
	if p.Hydra != "" {
		all = append(all, bench.Peer{Name: "hydra", Argv: []string{p.Hydra, "-n", n, p.True}})
	}
	if p.OpenMPI != "" && s.openMPI > 0 {
		argv := []string{p.OpenMPI, "--allow-run-as-root", "--oversubscribe", "-n", n, p.True}
		all = append(all, bench.Peer{Name: "openmpi", Argv: argv, Runs: s.openMPI, Limit: 8 * time.Second})
	}
	if p.Torchrun != "" && s.torchrun > 0 {
		argv := []string{p.Torchrun, "--no-python", "--nproc-per-node", n, p.True}
		all = append(all, bench.Peer{Name: "torchrun", Argv: argv, Runs: s.torchrun})
	}
	for at := range all {
		all[at].Environ = environ
	}
	return all
}

// add writes one block of rows; series[0] is gorun.
func add(report *bench.Report, ranks int, series []bench.Series) {
	ours := series[0]
	for _, peer := range series {
		g, has := goals[peer.Name][ranks]
		row := []string{strconv.Itoa(ranks), peer.Name, strconv.Itoa(len(peer.Walls)), bench.Millis(peer.Min()), bench.Millis(peer.Median()), "", "", "", ""}
		if peer.Name != ours.Name {
			row[5], row[6] = bench.Ratio(ours.Min(), peer.Min()), bench.Ratio(ours.Median(), peer.Median())
		}
		if has {
			row[7], row[8] = g.String(), string(g.judge(ours, peer))
		}
		report.Row(row...)
		if peer.Cut+peer.Failed > 0 {
			report.Note("%s with %d ranks: %d runs hung and were cut off, %d failed; both are left out", peer.Name, ranks, peer.Cut, peer.Failed)
		}
	}
}

func (g goal) String() string {
	if g.above > 0 {
		return "≤ +" + bench.Millis(g.above) + " ms"
	}
	return fmt.Sprintf("≤ %g", g.ratio)
}

func (g goal) judge(ours, peer bench.Series) bench.Verdict {
	if len(ours.Walls) == 0 || len(peer.Walls) == 0 {
		return bench.NoFigure
	}
	reached := func(a, b time.Duration) bool {
		if g.above > 0 {
			return a <= b+g.above
		}
		return float64(a) <= g.ratio*float64(b)
	}
	return bench.Judge(reached(ours.Min(), peer.Min()), reached(ours.Median(), peer.Median()))
}
