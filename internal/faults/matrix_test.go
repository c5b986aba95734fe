package faults

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorun/internal/testneeds"
)

// fault is one case of the matrix.
type fault struct {
	name string
	// criterion is the result that a user would want, in addition to no orphans.
	criterion string
	// own cases need options or processes that only gorun has.
	own bool
	// root cases need mount or PID namespaces, or another user.
	root bool
	// ownCgroup cases need a cgroup in which gorun can create one.
	ownCgroup bool
	// cgroup is the controller of a cgroup that the case makes; see scene.inCgroup.
	cgroup string
	// act starts the job and causes the fault.
	act func(s *scene)
	// check compares the outcome of the launcher with the criterion. If it is nil, the case only checks for
	// orphans.
	check func(s *scene, got outcome)
}

// verdict is the result of a case.
type verdict struct {
	why  string // "" if the criterion is met
	end  *end
	left []string // orphans
	took time.Duration
}

func (v verdict) met() bool { return v.why == "" && len(v.left) == 0 }

// faults are all cases. Names are unique.
func faults() []fault {
	return slices.Concat(killFaults(), ownGroupFaults(), terminalFaults(), guardFaults(), outputFaults(),
		[]fault{slowFault()}, stdinFaults(), resourceFaults(), memoryFaults(), taskFaults(), codeFaults(), listedFaults())
}

// try runs a case with a launcher, and kills the orphans by pid.
func (f fault) try(l launcher) (v verdict) {
	s, err := openScene(l)
	if err != nil {
		return verdict{why: err.Error()}
	}
	defer s.close()
	v.why = f.play(s)
	v.end = s.end()
	var left []process
	if v.why != "" {
		s.launcher.leaving = peerLeaving // the case has failed already
	}
	if s.command != nil && strings.HasPrefix(v.why, "hangs") {
		_ = s.command.Process.Kill()
	}
	left, v.took = s.gone()
	for _, p := range left {
		v.left = append(v.left, p.String())
		if p.lives() {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	for _, dir := range s.groups() {
		v.left = append(v.left, "cgroup "+dir)
	}
	if s.command != nil {
		_ = s.command.Process.Kill() // usually the process has ended
		<-s.ended
	}
	v.left = append(v.left, s.removeCgroups()...)
	return v
}

// play runs act and check. It returns the reason if the criterion is not met.
func (f fault) play(s *scene) (why string) {
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case unmet:
			why = string(fault)
		default:
			panic(fault)
		}
	}()
	f.act(s)
	if f.check != nil {
		f.check(s, s.result())
	}
	return ""
}

// places limits how many cases run at once.
var places = make(chan struct{}, 2)

func TestMatrix(t *testing.T) {
	l := known(t, *launcherFlag)
	t.Cleanup(func() { blamed.check(t) })
	for _, f := range faults() {
		if f.own && !l.ours {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			if f.root {
				testneeds.Root(t)
			}
			if f.ownCgroup {
				testneeds.OwnCgroup(t)
			}
			if f.cgroup != "" {
				testneeds.WritableCgroup(t, f.cgroup)
			}
			places <- struct{}{}
			defer func() { <-places }()
			v := f.try(l)
			report(t, f, v)
			blamed.add(t, f.name, v)
		})
	}
}

// report reports the result of a case.
func report(t *testing.T, f fault, v verdict) {
	t.Helper()
	t.Logf("wanted: %s", f.criterion)
	t.Logf("nothing was left after %v", v.took.Round(time.Millisecond))
	if v.why != "" {
		t.Errorf("not met: %s", v.why)
	}
	for _, p := range v.left {
		t.Errorf("left behind: %s", p)
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range faults() {
		if seen[f.name] || f.criterion == "" || f.act == nil {
			t.Errorf("case %q: its name is taken, or it has no criterion or act", f.name)
		}
		seen[f.name] = true
	}
	if len(seen) < 40 {
		t.Errorf("%d cases, wanted 40 and more", len(seen))
	}
}

// ends checks the exit code of a job.
func ends(code int) func(*scene, outcome) {
	return func(s *scene, got outcome) {
		s.require(got.code == code, "exit code %d, wanted %d: %s", got.code, code, s.said())
	}
}

// blames checks the exit code of a job, and that the report names rank 1 as the first failure, with its cause.
func blames(code int, how string) func(*scene, outcome) {
	return func(s *scene, got outcome) { s.blame(got, 1, code, how) }
}

// blame requires the exit code of a job, and that the report names a rank as the first failure, with its cause.
func (s *scene) blame(got outcome, rank, code int, how string) {
	ends(code)(s, got)
	text := got.stderr
	if !s.launcher.ours { // some launchers report it on standard output
		text += got.stdout
	}
	if strings.Contains(text, fmt.Sprintf(" ranks exited %d (rank %d first) after ", code, rank)) {
		return // the others did so, too, before they were stopped
	}
	s.require(s.launcher.names(rank, text), "rank %d is not named: %s", rank, s.said())
	s.require(!s.launcher.ours || strings.Contains(got.stderr, how), "no word of %q: %s", how, s.said())
}

// together joins checks.
func together(checks ...func(*scene, outcome)) func(*scene, outcome) {
	return func(s *scene, got outcome) {
		for _, check := range checks {
			check(s, got)
		}
	}
}

// contains checks that a stream contains a text.
func contains(stream func(outcome) string, text string) func(*scene, outcome) {
	return func(s *scene, got outcome) {
		s.require(strings.Contains(stream(got), text), "no word of %q: %s", text, s.said())
	}
}

func onStdout(got outcome) string { return got.stdout }
func onStderr(got outcome) string { return got.stderr }

// describeSignal is the text in gorun's report about a rank that a signal ended.
func describeSignal(number syscall.Signal) string { return "killed by " + signalName(number) }
