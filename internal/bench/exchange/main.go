// Command exchange measures how long a fence takes over simulated nodes with eight ranks each, of which each brings 100
// bytes: the head and its frames are the real ones, its agents goroutines behind TCP connections. It runs a benchmark of package
// launcher, whose frames nobody else may know.
//
//	go run ./internal/bench/exchange -json build/bench/exchange.json
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"log"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"gorun/internal/bench"
)

// limit is what a fence may take over so many nodes.
const (
	limit      = 50 * time.Millisecond
	limitNodes = "64"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("exchange: ")
	rounds := flag.Int("rounds", 300, "how many fences each number of nodes comes to")
	asJSON := flag.String("json", "", "write the table to this file, too")
	flag.Parse()
	if err := run(max(1, *rounds), *asJSON); err != nil {
		log.Fatal(err)
	}
}

func run(rounds int, asJSON string) error {
	command := exec.Command("go", "test", "-run", "^$", "-bench", "^BenchmarkFenceOverNodes$", "-benchtime", strconv.Itoa(rounds)+"x", "./launcher")
	said, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, said)
	}
	r := bench.NewReport("a fence of 8 ranks a node, 100 bytes each", "nodes", "minimum ms", "median ms", "KiB over all links", "target", "verdict")
	for lines := bufio.NewScanner(bytes.NewReader(said)); lines.Scan(); {
		if nodes, figures, ok := parse(lines.Text()); ok {
			row(r, nodes, figures)
		}
	}
	if len(r.Rows) == 0 {
		return fmt.Errorf("%s printed no figures:\n%s", command, said)
	}
	r.Note("%d fences each, both directions counted; all nodes and the head share this machine's CPUs", rounds)
	return r.Finish(asJSON)
}

// parse reads a line as "BenchmarkFenceOverNodes/64-2  300  6573 ns/op  13.4 ms-median".
func parse(line string) (nodes string, figures map[string]float64, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 2 || !strings.HasPrefix(fields[0], "BenchmarkFenceOverNodes/") {
		return "", nil, false
	}
	_, nodes, _ = strings.Cut(fields[0], "/")
	nodes, _, _ = strings.Cut(nodes, "-") // the number of CPUs follows
	figures = map[string]float64{}
	for i := 2; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return "", nil, false
		}
		figures[fields[i+1]] = value
	}
	return nodes, figures, true
}

func row(r *bench.Report, nodes string, figures map[string]float64) {
	millis := func(name string) time.Duration { return time.Duration(figures[name] * float64(time.Millisecond)) }
	least, median := millis("ms-min"), millis("ms-median")
	target, verdict := "", bench.NoTarget
	if nodes == limitNodes {
		target, verdict = fmt.Sprintf("≤ %s ms", bench.Millis(limit)), bench.Judge(least <= limit, median <= limit)
	}
	r.Row(nodes, bench.Millis(least), bench.Millis(median), fmt.Sprintf("%.0f", figures["KiB-sent"]), target, string(verdict))
}
