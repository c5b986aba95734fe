// Command output measures how fast four ranks that print 256 MB each get through a launcher to /dev/null, and by how much the
// launcher's memory grows while they do:
//
//	go run ./internal/bench/output -gorun bin/gorun -json build/bench/output.json
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"time"

	"gorun/internal/bench"
)

const (
	ranks    = 4
	perRank  = 256_000_000 // bytes
	rounds   = 5
	leastMBs = 500.0
	mostMiB  = 32.0
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("output: ")
	gorun := flag.String("gorun", "bin/gorun", "the gorun to measure")
	asJSON := flag.String("json", "", "write the table to this file, too")
	flag.Parse()
	if err := run(*gorun, *asJSON); err != nil {
		log.Fatal(err)
	}
}

// path is one way from the ranks to /dev/null, with what was measured on it.
type path struct {
	name   string
	argv   []string
	walls  []time.Duration
	growth int // KiB, the largest of all rounds
}

func run(gorun, asJSON string) error {
	programs, err := bench.FindPrograms(gorun)
	if err != nil {
		return err
	}
	defer programs.Close()

	paths := ways(programs)
	for range rounds {
		for at := range paths {
			wall, growth, err := bench.Growth(paths[at].argv, os.Environ())
			if err != nil {
				return fmt.Errorf("%s: %w", paths[at].name, err)
			}
			paths[at].walls = append(paths[at].walls, wall)
			paths[at].growth = max(paths[at].growth, growth)
		}
	}
	report := bench.NewReport(fmt.Sprintf("output of %d ranks × %d MB to /dev/null", ranks, perRank/1_000_000), "path", "best MB/s", "median MB/s", "RSS growth MiB", "target", "verdict")
	for _, way := range paths {
		add(report, way)
	}
	return report.Finish(asJSON)
}

// ways returns gorun's ways of passing output on, and those of the peers that are here.
func ways(p *bench.Programs) []path {
	n := strconv.Itoa(ranks)
	flood := []string{p.Flood, strconv.Itoa(perRank)}
	all := []path{
		{name: "gorun", argv: append([]string{p.Gorun, "-n", n}, flood...)},
		{name: "gorun --label=always", argv: append([]string{p.Gorun, "-n", n, "--label=always"}, flood...)},
		{name: "forkloop", argv: append([]string{p.Forkloop, n}, flood...)},
	}
	if p.Hydra != "" {
		all = append(all, path{name: "hydra", argv: append([]string{p.Hydra, "-n", n}, flood...)})
	}
	return all
}

func add(report *bench.Report, way path) {
	slices.Sort(way.walls)
	best, median := speed(way.walls[0]), speed(way.walls[len(way.walls)/2])
	growth := float64(way.growth) / 1024
	row := []string{way.name, fmt.Sprintf("%.0f", best), fmt.Sprintf("%.0f", median), fmt.Sprintf("%.1f", growth), "", ""}
	if way.name == "gorun" {
		row[4] = fmt.Sprintf("≥ %g MB/s, ≤ %g MiB", leastMBs, mostMiB)
		row[5] = string(bench.Judge(best >= leastMBs && growth <= mostMiB, median >= leastMBs && growth <= mostMiB))
	}
	report.Row(row...)
}

// speed is what all ranks together printed per second, in MB.
func speed(wall time.Duration) float64 {
	return ranks * perRank / 1e6 / wall.Seconds()
}
