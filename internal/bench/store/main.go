// Command store measures gorun's rendezvous store beside PyTorch's own (TCPStore with libuv, from .venv), under a load generator in C
// that speaks the raw protocol (internal/bench/csrc/storeload.c):
//
//	go run ./internal/bench/store -gorun bin/gorun -json build/bench/store.json
//
// Both servers stand side by side and take turns within each round. PyTorch's server looks up the name of each client; so that
// the figures do not depend on who answers for names here, both are given a nsswitch.conf that knows files only (in a mount name
// space of their own, where this user may have one). What the look-ups cost where nobody answers is a row of its own.
package main

import (
	"flag"
	"log"
	"os"
	"strings"

	"gorun/internal/bench"
)

// plan is how much is measured: five minutes on two cores, or half a minute.
type plan struct {
	ops           []int       // numbers of connections
	opRounds      int         // of each operation
	opMillis      string      // measured in a round
	joins         []joinsPlan // the world joins
	fanoutRounds  int
	tail          int // connections that hammer
	tailRounds    int
	tailMillis    string
	idle          int // connections
	silentClients int
}

// joinsPlan is one size of the world.
type joinsPlan struct{ clients, rounds int }

var (
	full = plan{
		ops: []int{1, 16, 256, 1000, 4000}, opRounds: 13, opMillis: "100",
		joins:        []joinsPlan{{100, 15}, {1000, 5}, {4000, 3}, {10000, 2}},
		fanoutRounds: 7, tail: 4000, tailRounds: 5, tailMillis: "2000", idle: 10000, silentClients: 100,
	}
	quick = plan{
		ops: []int{1, 16, 256}, opRounds: 3, opMillis: "100",
		joins:        []joinsPlan{{100, 5}, {1000, 3}},
		fanoutRounds: 3, tail: 256, tailRounds: 3, tailMillis: "500", idle: 1000, silentClients: 100,
	}
)

// run is one run of the whole comparison.
type run struct {
	plan
	programs *bench.Programs
	pair     pair
	report   *bench.Report
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("store: ")
	gorun := flag.String("gorun", "bin/gorun", "the gorun to measure")
	asJSON := flag.String("json", "", "write the table to this file, too")
	short := flag.Bool("quick", false, "fewer sizes and rounds: half a minute")
	only := flag.String("only", "", "only these parts, such as ops,join; all are memory,ops,join,fanout,tail,silent")
	names := flag.String("names", "", "internal: run the command that follows where names are looked up so")
	flag.Parse()
	if *names != "" {
		log.Fatal(execWith(*names, flag.Args()))
	}
	r := run{plan: full}
	if *short {
		r.plan = quick
	}
	if err := r.all(*gorun, *asJSON, *only); err != nil {
		log.Fatal(err)
	}
}

func (r *run) all(gorun, asJSON, only string) error {
	bench.Quiet() // one thread starts all servers: they die with it
	var err error
	if r.programs, err = bench.FindPrograms(gorun); err != nil {
		return err
	}
	defer r.programs.Close()
	r.report = newReport()
	names := namesFromFiles
	if err := canSet(names); err != nil {
		names = namesAsHere
		r.report.Note("PyTorch's server looks up its clients' names as this machine does, which may cost it time: %v", err)
	}
	if r.pair, err = startPair(r.programs, names); err != nil {
		return err
	}
	defer r.pair.end()
	for _, part := range []struct {
		name    string
		measure func() error
	}{ // memory first, while both are fresh
		{"memory", r.memory},
		{"ops", r.operations},
		{"join", r.joinAll},
		{"fanout", r.fanout},
		{"tail", r.tails},
		{"silent", r.silent},
	} {
		if only != "" && !strings.Contains(","+only+",", ","+part.name+",") {
			continue
		}
		if err := part.measure(); err != nil {
			return err
		}
	}
	return r.report.Finish(asJSON)
}

// progress is for somebody who looks at the terminal.
func progress(format string, args ...any) {
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		log.Printf(format, args...)
	}
}
