package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gorun/internal/testneeds"
)

// strike is one random fault: one of four ranks dies.
type strike struct {
	victim        int
	shape, manner string
	by            any // a signal from outside, or an order
	code          int
	how           string
	// lines is how many lines each rank writes, which determines the moment of the fault.
	lines [4]int
	// patient strikes come after the victim has written its lines, others during that.
	patient bool
	gloo    bool
}

// draw makes a random strike.
func draw(random *rand.Rand, gloo bool) strike {
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	k := strike{
		victim: random.IntN(4), patient: random.IntN(2) == 0, gloo: gloo,
		shape:  pick("none", "child", "setsid", "daemon", "closed"),
		manner: pick("default", "default", "handle", "follow", "ignore"),
	}
	for rank := range k.lines {
		k.lines[rank] = random.IntN(500)
	}
	fatal := []syscall.Signal{
		syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE,
		syscall.SIGILL, syscall.SIGKILL,
	}
	number := fatal[random.IntN(len(fatal))]
	switch random.IntN(4) {
	case 0:
		k.by, k.code = fmt.Sprintf("signal %d", number), 128+int(number)
		k.how = describeSignal(number)
	case 1:
		k.by, k.code, k.how = syscall.SIGKILL, 137, describeSignal(syscall.SIGKILL)
	case 2:
		code := 1 + random.IntN(123)
		k.by, k.code, k.how = fmt.Sprintf("exit %d", code), code, fmt.Sprintf("exit code %d (", code)
	case 3:
		k.by, k.code, k.how = "panic", 2, "exit code 2 ("
		if gloo {
			k.by, k.code, k.how = "raise", 1, "ValueError: ordered to"
		}
	}
	return k
}

func (k strike) String() string {
	kind := fmt.Sprintf("%s, %s", k.shape, k.manner)
	if k.gloo {
		kind = "PyTorch with Gloo"
	}
	return fmt.Sprintf("rank %d of 4 (%s) dies by %v, lines %v, patient %t", k.victim, kind, k.by, k.lines, k.patient)
}

// asFault makes a case from the strike. The interpreter is for Gloo.
func (k strike) asFault(python, script string) fault {
	return fault{criterion: fmt.Sprintf("exit code %d, rank %d named, %q", k.code, k.victim, k.how), act: func(s *scene) {
		if k.gloo {
			s.launch(work{ranks: 4, program: []string{python, "-u", script}})
			k.hit(s, s.await("rank", 4)[k.victim])
			return
		}
		s.launch(work{ranks: 4, program: role("rank", k.manner, k.shape)})
		ranks := s.await("rank", 4)
		if k.shape != "none" {
			s.await("child", 4)
		}
		for _, rank := range ranks {
			s.order(rank, "say %d", k.lines[rank.rank])
		}
		if k.patient {
			_, err := ranks[k.victim].words.ReadString('\n')
			s.require(err == nil, "rank %d is gone: %v", k.victim, err)
		}
		k.hit(s, ranks[k.victim])
	}, check: func(s *scene, got outcome) { s.blame(got, k.victim, k.code, k.how) }}
}

func (k strike) hit(s *scene, victim *member) {
	if number, signalled := k.by.(syscall.Signal); signalled {
		s.signal(victim.pid, number)
		return
	}
	s.order(victim, "%v", k.by)
}

// In jobs of four ranks, a random rank dies in a random way at a random moment. Every fourth job uses PyTorch,
// where the other ranks then fail too.
func TestRandomFaults(t *testing.T) {
	random := testneeds.Rand(t)
	l := known(t, "gorun")
	for n := range testneeds.Count(10, 200) {
		k := draw(random, n%4 == 3)
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			python, script := "", ""
			if k.gloo {
				python, script = testneeds.Torch(t), filepath.Join(testneeds.Repository(t), "internal/faults/testdata/gloo.py")
			}
			t.Log(k)
			f := k.asFault(python, script)
			report(t, f, f.try(l))
		})
	}
}

// moments are the times to kill gorun: while it starts ranks, while they run, after its first file, while they end.
// Each function returns at its moment.
var moments = []struct {
	name  string
	reach func(s *scene, random *rand.Rand)
}{
	{"start", func(_ *scene, random *rand.Rand) { instant(random, 10*time.Millisecond) }},
	{"run", func(s *scene, random *rand.Rand) {
		for _, rank := range s.assembled("daemon") {
			s.order(rank, "say %d", random.IntN(1000))
		}
		instant(random, 5*time.Millisecond)
	}},
	{"place for error files", func(s *scene, _ *rand.Rand) {
		for len(s.files()) == 0 { // as soon as the file exists
			select {
			case <-s.ended:
				s.fail("the launcher ended before: %s", s.said())
			default:
			}
		}
	}},
	{"end", func(s *scene, random *rand.Rand) {
		ranks := s.assembled("daemon")
		for _, rank := range ranks[:1+random.IntN(2)] {
			s.order(rank, "exit %d", random.IntN(2))
		}
		instant(random, 10*time.Millisecond)
	}},
}

// instant waits for a random time: the fault itself, not a synchronisation.
func instant(random *rand.Rand, most time.Duration) {
	time.Sleep(time.Duration(random.Int64N(int64(most))))
}

// SIGKILL of gorun at any moment leaves no process, and no file in its temporary directory.
func TestKilledAtAnyMoment(t *testing.T) {
	random := testneeds.Rand(t)
	l := known(t, "gorun")
	for n := range testneeds.Count(10, 100) {
		moment := moments[n%len(moments)]
		manner := []string{"default", "ignore"}[random.IntN(2)]
		f := fault{criterion: "no process left, and nothing in TMPDIR", act: func(s *scene) {
			s.launch(work{ranks: 2, program: role("rank", manner, "daemon")})
			moment.reach(s, random)
			_ = s.command.Process.Kill() // the process may have ended
			s.result()
			s.until("an empty TMPDIR", func() bool { return len(s.files()) == 0 })
		}}
		t.Run(fmt.Sprintf("%d %s", n, moment.name), func(t *testing.T) { report(t, f, f.try(l)) })
	}
}

// files lists the files in the launcher's temporary directory.
func (s *scene) files() []os.DirEntry {
	entries, err := os.ReadDir(s.temporary())
	s.require(err == nil, "%v", err)
	return entries
}
