// Command pytorch measures a whole small PyTorch job (init_process_group("gloo"), one all_reduce, exit) with four ranks under gorun
// and under torchrun, and torchrun's own start-up beside it: the gain should be at least that.
//
//	go run ./internal/bench/pytorch -gorun bin/gorun -json build/bench/pytorch.json
package main

import (
	"errors"
	"flag"
	"log"
	"os"
	"strconv"

	"gorun/internal/bench"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("pytorch: ")
	gorun := flag.String("gorun", "bin/gorun", "the gorun to measure")
	asJSON := flag.String("json", "", "write the table to this file, too")
	rounds := flag.Int("rounds", 7, "how often each runs")
	flag.Parse()
	if err := run(*gorun, *asJSON, *rounds); err != nil {
		log.Fatal(err)
	}
}

func run(gorun, asJSON string, rounds int) error {
	programs, err := bench.FindPrograms(gorun)
	if err != nil {
		return err
	}
	defer programs.Close()
	if programs.Torchrun == "" {
		return errors.New("no .venv/bin/torchrun: .ci/setup makes it")
	}
	bench.Quiet()

	const script = "examples/torch/hello.py"
	// One thread for each rank is what both launchers would choose on a machine with as many CPUs as ranks or fewer.
	environ := append(os.Environ(), "OMP_NUM_THREADS=1", "GORUN_PYTHON="+programs.Python)
	series, err := bench.Interleave(rounds, []bench.Peer{
		{Name: "gorun", Argv: []string{programs.Gorun, "--nproc-per-node", "4", script}, Environ: environ},
		{Name: "torchrun", Argv: []string{programs.Torchrun, "--nproc-per-node", "4", script}, Environ: environ},
		{Name: "torchrun, 4 × /bin/true", Argv: []string{programs.Torchrun, "--no-python", "--nproc-per-node", "4", programs.True}, Environ: environ},
	})
	if err != nil {
		return err
	}
	report := bench.NewReport("4 ranks of PyTorch: init_process_group, all_reduce, exit", "launcher", "runs", "min ms", "median ms", "gain min ms", "median", "target", "verdict")
	add(report, series[0], series[1], series[2])
	return report.Finish(asJSON)
}

// add compares what gorun saves with what torchrun's own start-up takes.
func add(report *bench.Report, ours, theirs, bare bench.Series) {
	gainMin, gainMedian := theirs.Min()-ours.Min(), theirs.Median()-ours.Median()
	verdict := bench.Judge(gainMin >= bare.Min(), gainMedian >= bare.Median())
	for _, s := range []bench.Series{ours, theirs, bare} {
		if len(s.Walls) == 0 {
			verdict = bench.NoFigure
		}
		if s.Cut+s.Failed > 0 {
			report.Note("%s: %d runs hung and were cut off, %d failed; both are left out", s.Name, s.Cut, s.Failed)
		}
	}
	row := func(s bench.Series, cells ...string) {
		report.Row(append([]string{s.Name, strconv.Itoa(len(s.Walls)), bench.Millis(s.Min()), bench.Millis(s.Median())}, cells...)...)
	}
	row(ours, "", "", "", "")
	row(theirs, bench.Millis(gainMin), bench.Millis(gainMedian), "≥ "+bench.Millis(bare.Min())+" / "+bench.Millis(bare.Median()), string(verdict))
	row(bare, "", "", "", "")
}
