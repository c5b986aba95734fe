// Command hosts measures how long one /bin/true on each of N hosts takes over SSH, under gorun and under the two MPIs:
//
//	sudo go run ./internal/bench/hosts -gorun bin/gorun -json build/bench/hosts.json
//
// The hosts are internal/testhosts': namespaces of this machine, each with a sshd of OpenSSH, all of which share its CPUs. Hydra
// (MPICH) and mpirun (Open MPI) come to them by the same ssh_config and the same key. With them are measured: a first launch, when
// gorun's copy is in no host's cache, and what the head of a job that does nothing costs.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gorun/internal/bench"
	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
)

// size is a number of hosts, with how many rounds launches are interleaved and how often the caches are emptied.
type size struct{ hosts, rounds, cold int }

var sizes = []size{
	{1, 40, 5},
	{4, 30, 5},
	{16, 15, 5},
	{64, 5, 3},
}

// The targets.
const (
	launchRatio = 0.7 // of the faster MPI's
	coldRatio   = 2   // of the own launch with a full cache
	idleShare   = 1   // % of a core at the head of 64 hosts
)

// wish is what the command line asks for.
type wish struct {
	gorun, json, only string
	rounds            float64
	idle              time.Duration
	set               string // the hosts' folder: this process is at their head
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("hosts: ")
	var w wish
	flag.StringVar(&w.gorun, "gorun", "bin/gorun", "the gorun to measure")
	flag.StringVar(&w.json, "json", "", "write the table to this file, too")
	flag.Float64Var(&w.rounds, "rounds", 1, "multiply the number of rounds by this")
	flag.StringVar(&w.only, "n", "", "only these numbers of hosts, such as 1,16")
	flag.DurationVar(&w.idle, "idle", 15*time.Second, "how long a job is watched that does nothing; 0 for not at all")
	flag.StringVar(&w.set, "set", "", "for this program's own use")
	flag.Parse()
	run := w.outside
	if w.set != "" {
		run = w.atHead
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// wanted are the sizes to measure.
func (w *wish) wanted() (list []size) {
	for _, s := range sizes {
		if w.only != "" && !strings.Contains(","+w.only+",", ","+strconv.Itoa(s.hosts)+",") {
			continue
		}
		s.rounds, s.cold = max(int(float64(s.rounds)*w.rounds), 1), max(int(float64(s.cold)*w.rounds), 1)
		list = append(list, s)
	}
	return list
}

// outside makes the hosts and runs this program again at their head, so that nothing stands between it and what it measures.
func (w *wish) outside() error {
	if err := testneeds.FindHosts(); err != nil {
		log.Printf("left out: %v", err)
		return nil
	}
	list := w.wanted()
	if len(list) == 0 {
		return fmt.Errorf("-n %s names none of the sizes", w.only)
	}
	set, err := testhosts.Start(testhosts.Config{Hosts: list[len(list)-1].hosts, PrivateHome: true, SSHD: []string{"MaxStartups 1000"}})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err == nil {
		command := set.Command(testhosts.Head, append([]string{self, "-set", set.Dir()}, os.Args[1:]...)...)
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		err = command.Run()
	}
	if down := set.Down(); err == nil {
		err = down
	}
	return err
}

// atHead measures.
func (w *wish) atHead() error {
	programs, err := bench.FindPrograms(w.gorun)
	if err != nil {
		return err
	}
	defer programs.Close()
	bench.Quiet()
	m := &measuring{programs: programs, config: filepath.Join(w.set, "ssh_config"), ssh: filepath.Join(w.set, "ssh"), set: w.set}
	m.report = bench.NewReport("launch of /bin/true on N hosts over SSH", "hosts", "what", "runs", "min ms", "median ms", "gorun/this min", "median", "target", "verdict")
	m.report.Note("load of this machine when it began: %s", load())
	for _, missing := range programs.Missing() {
		if strings.Contains(missing, "MPI") {
			m.report.Note("not installed here, so not compared: %s", missing)
		}
	}
	list := w.wanted()
	for _, s := range list {
		if err := m.launches(s); err != nil {
			return err
		}
	}
	if w.idle > 0 {
		if err := m.idle(list[len(list)-1].hosts, w.idle); err != nil {
			return err
		}
	}
	return m.report.Finish(w.json)
}

// load is the machine's load average.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "not known"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
