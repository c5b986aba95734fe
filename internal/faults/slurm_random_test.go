package faults

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorun/internal/testneeds"
)

// slurmStrikes are faults that may hit a job at any moment.
var slurmStrikes = []string{
	"SIGKILL gorun", "SIGTERM gorun", "SIGINT gorun", "SIGKILL agent", "SIGKILL srun",
	"SIGTERM srun", "scancel", "scancel KILL", "scancel step",
}

// slurmDraw is a random case: a fault at some time after the submission, possibly before the job starts.
type slurmDraw struct {
	form, shape, strike string
	after               time.Duration
}

func drawSlurm(r *rand.Rand) slurmDraw {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	return slurmDraw{
		form:  pick(inAllocation, inAllocation, inScript, underScript, gorunEveryNode, gorunEveryRank),
		shape: pick("none", "daemon", "setsid"), strike: pick(slurmStrikes...),
		after: time.Duration(r.IntN(500)) * time.Millisecond,
	}
}

func (d slurmDraw) String() string {
	return fmt.Sprintf("%s, %s, %s after %s", d.form, d.shape, d.strike, d.after)
}

// Jobs are hit at random moments. Whatever they report, no process may remain.
func TestSlurmAtRandom(t *testing.T) {
	testneeds.Slurm(t)
	r := testneeds.Rand(t)
	places := make(chan struct{}, slurmAtOnce)
	for n := range testneeds.Count(8, 300) {
		d := drawSlurm(r)
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			t.Log(d)
			f := slurmFault{criterion: "nothing left", act: d.act, check: func(*slurmScene, outcome) {}}
			report(t, fault{criterion: f.criterion}, f.try(t, slurm.Cluster(t)))
		})
	}
}

func (d slurmDraw) act(s *slurmScene) {
	s.form(d.form, role("rank", "ignore", d.shape))
	select {
	case <-time.After(d.after): // the case itself
	case <-s.ended:
	}
	s.noteJob()
	s.at = time.Now()
	d.do(s)
	select { // end jobs that the fault did not end, such as one that lost only its srun
	case <-s.ended:
	case <-time.After(5 * time.Second):
		for _, p := range s.named("gorun") {
			if words := argv(p.pid); len(words) > 1 && words[1] != "agent" && s.variable(p.pid, "RANK") == "" {
				_ = syscall.Kill(p.pid, syscall.SIGTERM)
			}
		}
		s.noteJob() // the job may have started since
		s.require(s.job != 0 || d.form == inAllocation, "nobody knows the job")
	}
}

// noteJob looks up the job's number and its guards, if they exist yet.
func (s *slurmScene) noteJob() {
	for _, p := range marked(s.mark) {
		if job, _ := strconv.Atoi(s.variable(p.pid, "SLURM_JOB_ID")); job > 0 {
			s.job = job
		}
		for _, child := range children(p.pid) {
			if child.name == "job-guard" {
				s.guards = append(s.guards, child)
			}
		}
	}
}

// do causes the fault. It hits processes if they exist, and otherwise the job or its submission.
func (d slurmDraw) do(s *slurmScene) {
	verb, what, _ := strings.Cut(d.strike, " ")
	number := map[string]syscall.Signal{
		"SIGKILL": syscall.SIGKILL, "SIGTERM": syscall.SIGTERM,
		"SIGINT": syscall.SIGINT,
	}[verb]
	for _, p := range marked(s.mark) {
		words := argv(p.pid)
		isAgent := len(words) > 1 && words[1] == "agent"
		if number != 0 && (what == p.name && !isAgent || what == "agent" && isAgent) {
			_ = syscall.Kill(p.pid, number) // the process may have ended
			return
		}
	}
	switch {
	case s.job == 0 && s.command != nil:
		_ = s.command.Process.Signal(syscall.SIGTERM)
	case d.strike == "scancel step":
		_ = s.c.Command(s.t, "scancel", s.number()+".0").Run() // the step may not have started
	case d.strike == "scancel KILL":
		_ = s.c.Command(s.t, "scancel", "--full", "--signal=KILL", s.number()).Run()
	default:
		_ = s.c.Command(s.t, "scancel", s.number()).Run()
	}
}
