// Command mpi measures how long an MPI program takes that only begins, meets in a barrier and ends, under gorun and under the launcher of its own
// library, and what it costs ranks that use no MPI that they could:
//
//	go run ./internal/bench/mpi -gorun bin/gorun -json build/bench/mpi.json
//
// Libraries are Debian's MPICH and Open MPI, as far as they are installed with their compilers.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gorun/internal/bench"
	"gorun/internal/testneeds"
)

// family is a library with its own launcher, and what gorun should take of that one's time at most.
type family struct {
	layer testneeds.Layer
	goal  float64
}

var families = []family{{testneeds.LayerMPICH, 1.0}, {testneeds.LayerOpenMPI, 0.9}}

// sizes are numbers of ranks and how many rounds each has.
var sizes = []struct{ ranks, rounds, idle int }{{4, 30, 200}, {16, 12, 100}, {64, 5, 60}}

// idleGoal bounds N × /bin/true with all protocols on against --mpi=none.
const idleGoal = 1.05

// limit is how long one run may take.
const limit = time.Minute

// session is what one measurement needs.
type session struct {
	gorun, dir string
	scale      float64
	only       string
	report     *bench.Report
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("mpi: ")
	var s session
	flag.StringVar(&s.gorun, "gorun", "bin/gorun", "the gorun to measure")
	asJSON := flag.String("json", "", "write the table to this file, too")
	flag.Float64Var(&s.scale, "rounds", 1, "multiply the number of rounds by this")
	flag.StringVar(&s.only, "n", "", "only these numbers of ranks, such as 4,16")
	flag.Parse()
	if err := s.run(*asJSON); err != nil {
		log.Fatal(err)
	}
}

func (s *session) run(asJSON string) error {
	var err error
	if s.gorun, err = filepath.Abs(s.gorun); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "gorun-bench-mpi-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir)
	bench.Quiet()
	s.report = bench.NewReport("MPI: init, barrier, finalize; and N × /bin/true", "what", "N", "launcher", "runs", "min ms", "median ms", "gorun/this min", "median", "target", "verdict")
	for _, f := range families {
		if err := s.measure(f); err != nil {
			return err
		}
	}
	if err := s.idle(); err != nil {
		return err
	}
	return s.report.Finish(asJSON)
}

// wanted reports whether a number of ranks is to be measured.
func (s *session) wanted(ranks int) bool {
	return s.only == "" || strings.Contains(","+s.only+",", ","+strconv.Itoa(ranks)+",")
}

func (s *session) rounds(n int) int { return max(int(float64(n)*s.scale), 1) }

// measure compares gorun with a library's own launcher.
func (s *session) measure(f family) error {
	library := testneeds.FindMPI(".", f.layer)
	if library.Compiler == "" || !library.HasLauncher() {
		s.report.Note("not installed here, so not compared: %s with its compiler (.ci/setup)", f.layer)
		return nil
	}
	program := filepath.Join(s.dir, string(f.layer))
	source := filepath.Join("internal", "bench", "csrc", "mpihello.c")
	if said, err := exec.Command(library.Compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, source).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", library.Compiler, source, err, said)
	}
	for _, size := range sizes {
		if !s.wanted(size.ranks) {
			continue
		}
		err := s.compare(string(f.layer)+" hello", size.ranks, s.rounds(size.rounds), f.goal,
			bench.Peer{Name: "gorun", Argv: []string{s.gorun, "-q", "-n", strconv.Itoa(size.ranks), program}},
			bench.Peer{Name: filepath.Base(library.Launch(1)[0]), Argv: library.Launch(size.ranks, program)})
		if err != nil {
			return err
		}
	}
	return nil
}

// idle measures ranks that use no MPI.
func (s *session) idle() error {
	program := bench.Lookup("true")
	for _, size := range sizes {
		if !s.wanted(size.ranks) {
			continue
		}
		n := strconv.Itoa(size.ranks)
		err := s.compare("/bin/true", size.ranks, s.rounds(size.idle), idleGoal,
			bench.Peer{Name: "gorun", Argv: []string{s.gorun, "-q", "-n", n, program}},
			bench.Peer{Name: "gorun --mpi=none", Argv: []string{s.gorun, "-q", "--mpi=none", "-n", n, program}})
		if err != nil {
			return err
		}
	}
	return nil
}

// compare runs both in turns, and writes a line for each.
func (s *session) compare(what string, ranks, rounds int, goal float64, peers ...bench.Peer) error {
	for i := range peers {
		peers[i].Environ, peers[i].Limit = os.Environ(), limit
	}
	series, err := bench.Interleave(rounds, peers)
	if err != nil {
		return err
	}
	ours := series[0]
	for _, one := range series {
		row := []string{what, strconv.Itoa(ranks), one.Name, strconv.Itoa(len(one.Walls)), bench.Millis(one.Min()), bench.Millis(one.Median()), "", "", "", ""}
		if one.Name != ours.Name {
			row[6], row[7] = bench.Ratio(ours.Min(), one.Min()), bench.Ratio(ours.Median(), one.Median())
			row[8], row[9] = fmt.Sprintf("≤ %g", goal), string(bench.JudgeRatio(ours, one, goal))
		}
		s.report.Row(row...)
		if one.Cut+one.Failed > 0 {
			s.report.Note("%s with %d ranks under %s: %d runs hung and were cut off, %d failed; both are left out", what, ranks, one.Name, one.Cut, one.Failed)
		}
	}
	return nil
}
