// Command discovery measures how long it takes to read what a machine with eight GPUs consists of: from folders with the
// files that the kernels of typical machines show, one round over all of them after the other.
//
//	go run ./internal/bench/discovery -json build/bench/discovery.json
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"time"

	"gorun/internal/bench"
	"gorun/placement"
	"gorun/placement/sysfs"
	"gorun/placement/sysfs/sysfstest"
)

// limit is what discovery may take, and gpus the machines for which that holds.
const (
	limit = 5 * time.Millisecond
	gpus  = 8
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("discovery: ")
	rounds := flag.Int("rounds", 100, "how often each machine is read")
	asJSON := flag.String("json", "", "write the table to this file, too")
	flag.Parse()
	if err := run(max(1, *rounds), *asJSON); err != nil {
		log.Fatal(err)
	}
}

// wishes are what is asked of a machine.
var wishes = []struct {
	name  string
	needs sysfs.Needs
}{
	{"a job's start", sysfs.Needs{CPUs: true, GPUs: true, Topology: true}},
	{"gorun topo", sysfs.Needs{CPUs: true, Memory: true, GPUs: true, Topology: true, NICs: true, Links: true}},
}

// candidate is a machine in a folder, and how long each reading of it took, by wish.
type candidate struct {
	name    string
	machine placement.Machine
	dir     string
	took    [][]time.Duration
}

func run(rounds int, asJSON string) error {
	folder, err := os.MkdirTemp("", "discovery")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }() // as good as it goes: they are a few megabytes
	candidates, err := write(folder)
	if err != nil {
		return err
	}
	for range rounds {
		for _, c := range candidates {
			for i, wish := range wishes {
				begin := time.Now()
				m := sysfs.ReadDir(c.dir, c.machine.CPUs, wish.needs)
				c.took[i] = append(c.took[i], time.Since(begin))
				if len(m.GPUs) != gpus || len(m.Topology.CPUs) != len(c.machine.Topology.CPUs) {
					return fmt.Errorf("%s: %d GPUs and %d CPUs were read, it has %d and %d", c.name,
						len(m.GPUs), len(m.Topology.CPUs), gpus, len(c.machine.Topology.CPUs))
				}
			}
		}
	}
	return report(candidates, rounds).Finish(asJSON)
}

// write makes the folders of the example machines with eight GPUs.
func write(folder string) ([]*candidate, error) {
	var all []*candidate
	for _, name := range placement.Examples() {
		m, err := placement.Example(name)
		if err != nil {
			return nil, err
		}
		if len(m.GPUs) != gpus {
			continue
		}
		c := &candidate{name: name, machine: m, dir: folder + "/" + name, took: make([][]time.Duration, len(wishes))}
		if err := sysfstest.OnDisk(c.dir, sysfstest.TreeOf(m)); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func report(candidates []*candidate, rounds int) *bench.Report {
	r := bench.NewReport("discovery of machines with eight GPUs", "machine", "CPUs", "NICs", "for", "minimum ms", "median ms", "median : limit", "target", "verdict")
	for _, c := range candidates {
		for i, wish := range wishes {
			slices.Sort(c.took[i])
			least, median := c.took[i][0], c.took[i][len(c.took[i])/2]
			r.Row(c.name, fmt.Sprint(len(c.machine.Topology.CPUs)), fmt.Sprint(len(c.machine.Topology.NICs)), wish.name,
				bench.Millis(least), bench.Millis(median), bench.Ratio(median, limit), fmt.Sprintf("≤ %s ms", bench.Millis(limit)),
				string(bench.Judge(least <= limit, median <= limit)))
		}
	}
	r.Note("%d rounds; the files are a folder's, not the kernel's, and drivers answer for some of the latter", rounds)
	return r
}
