// Command memory measures what a launcher holds while its ranks stand still: 256 under gorun and Hydra, 4 under torchrun.
//
//	go run ./internal/bench/memory -gorun bin/gorun -json build/bench/memory.json
package main

import (
	"flag"
	"fmt"
	"log"
	"strconv"
	"time"

	"gorun/internal/bench"
)

// limitMiB is what gorun's launcher may hold with 256 ranks.
const limitMiB = 16.0

func main() {
	log.SetFlags(0)
	log.SetPrefix("memory: ")
	gorun := flag.String("gorun", "bin/gorun", "the gorun to measure")
	asJSON := flag.String("json", "", "write the table to this file, too")
	flag.Parse()
	if err := run(*gorun, *asJSON); err != nil {
		log.Fatal(err)
	}
}

// candidate is one launcher with a number of ranks.
type candidate struct {
	name  string
	path  string
	ranks int
	flags []string
}

func run(gorun, asJSON string) error {
	programs, err := bench.FindPrograms(gorun)
	if err != nil {
		return err
	}
	defer programs.Close()

	report := bench.NewReport("memory of a launcher whose ranks stand still", "launcher", "ranks", "RSS MiB", "peak MiB", "its helpers MiB", "target", "verdict")
	for _, c := range []candidate{
		{"gorun", programs.Gorun, 4, []string{"-n", "4"}},
		{"gorun", programs.Gorun, 256, []string{"-n", "256"}},
		{"hydra", programs.Hydra, 256, []string{"-n", "256"}},
		{"torchrun", programs.Torchrun, 4, []string{"--no-python", "--nproc-per-node", "4"}},
	} {
		if c.path == "" {
			report.Note("not installed here, so not compared: %s", c.name)
			continue
		}
		if err := measure(report, programs, c); err != nil {
			return err
		}
	}
	return report.Finish(asJSON)
}

func measure(report *bench.Report, programs *bench.Programs, c candidate) error {
	argv := append(append([]string{c.path}, c.flags...), programs.Stand)
	standing, err := bench.Stand(argv, c.ranks, time.Minute)
	if err != nil {
		return err
	}
	defer standing.End()
	launcher, helpers, err := standing.Memory(programs.Stand)
	if err != nil {
		return err
	}
	target, verdict := "", bench.NoTarget
	if c.name == "gorun" && c.ranks == 256 {
		target = fmt.Sprintf("≤ %g MiB", limitMiB)
		verdict = bench.Judge(mib(launcher.Peak) <= limitMiB, mib(launcher.Now) <= limitMiB)
	}
	report.Row(c.name, strconv.Itoa(c.ranks), inMiB(launcher.Now), inMiB(launcher.Peak), inMiB(helpers.Now), target, string(verdict))
	return nil
}

func mib(kib int) float64  { return float64(kib) / 1024 }
func inMiB(kib int) string { return fmt.Sprintf("%.1f", mib(kib)) }
