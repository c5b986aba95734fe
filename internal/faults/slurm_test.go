package faults

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorun/internal/testneeds"
	"gorun/internal/testslurm"
)

// slurm is a real Slurm with four nodes on this host. Cases that kill its daemons start their own.
var slurm = testslurm.Shared{Config: slurmConfig}

// slurmConfig has enough CPUs that no job waits for another.
var slurmConfig = testslurm.Config{Names: true, CPUs: 64, KillWait: slurmKillWait}

const (
	slurmKillWait = 3 // seconds
	// slurmAtOnce is how many cases run at once in one Slurm.
	slurmAtOnce = 5
)

// Forms of starting gorun inside Slurm.
const (
	inAllocation   = "salloc"             // one gorun in an allocation, which starts agents
	inScript       = "sbatch"             // the same in a batch script, replacing its shell
	underScript    = "sbatch's child"     // the same, as a child of that shell
	gorunEveryNode = "one gorun per node" // in a step of srun
	gorunEveryRank = "one gorun per rank" // the same
)

// slurmFault is one case in Slurm: a job on two nodes with two ranks each, unless the case changes that.
type slurmFault struct {
	name, criterion string
	soak            bool // not in the sample of `make test`
	own             bool // damages daemons, so it has its own Slurm
	act             func(s *slurmScene)
	check           func(s *slurmScene, got outcome)
}

// slurmScene is a scene inside a Slurm.
type slurmScene struct {
	*scene
	c   *testslurm.Cluster
	t   *testing.T
	job int       // job number, once it is known
	at  time.Time // of the fault
}

func slurmFaults() []slurmFault {
	return slices.Concat(slurmRankFaults(), slurmKillFaults(), slurmDaemonFaults(), slurmSignalFaults(),
		slurmQueueFaults(), slurmBesideFaults(), slurmStreamFaults(), slurmStartFaults())
}

// Jobs inside Slurm are subject to every fault. This runs a sample; `make soak` runs all cases.
func TestSlurm(t *testing.T) {
	testneeds.Slurm(t)
	t.Cleanup(func() { blamed.check(t) })
	places := make(chan struct{}, slurmAtOnce)
	for _, f := range slurmFaults() {
		if f.soak && !testneeds.Soak() {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			c := (*testslurm.Cluster)(nil)
			if f.own {
				c = testslurm.Start(t, slurmConfig)
			} else {
				c = slurm.Cluster(t)
			}
			v := f.try(t, c)
			report(t, fault{criterion: f.criterion}, v)
			blamed.add(t, "slurm: "+f.name, v)
		})
	}
}

func TestNamesOfSlurmFaultsAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range slurmFaults() {
		if seen[f.name] || f.criterion == "" || f.act == nil || f.check == nil {
			t.Errorf("case %q: its name is taken, or it has no criterion, act or check", f.name)
		}
		seen[f.name] = true
	}
}

// try runs a case and kills the processes that are left.
func (f slurmFault) try(t *testing.T, c *testslurm.Cluster) (v verdict) {
	l := known(t, "gorun")
	l.argv = []string{built("gorun"), "--grace", "2"}
	inner, err := openSceneIn(l, c.Dir()) // all users may enter it
	if err != nil {
		return verdict{why: err.Error()}
	}
	s := &slurmScene{scene: inner, c: c, t: t}
	defer s.close()
	v.why = f.play(s)
	limit := patience
	if v.why != "" {
		limit = peerLeaving
	}
	v.end = s.end()
	v.left, v.took = s.gone(limit)
	if len(v.left) > 0 {
		_ = c.Command(t, "scancel", "--full", "--signal=KILL", strconv.Itoa(s.job)).Run()
	}
	for _, p := range s.present() {
		if p.lives() {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	if s.command != nil {
		_ = s.command.Process.Kill() // usually the process has ended
		<-s.ended
	}
	return v
}

// play runs act and check. It returns the reason if the criterion is not met.
func (f slurmFault) play(s *slurmScene) string {
	return fault{act: func(*scene) {
		f.act(s)
		if s.at.IsZero() {
			s.at = time.Now()
		}
		f.check(s, s.result())
	}}.play(s.scene)
}

// gone waits until no process and no step of the job exists, and returns those that remain.
func (s *slurmScene) gone(limit time.Duration) (left []string, took time.Duration) {
	if s.at.IsZero() {
		s.at = time.Now()
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		left = nil
		for _, p := range s.present() {
			left = append(left, p.String())
		}
		for _, step := range s.steps() {
			left = append(left, "step "+step)
		}
		if len(left) == 0 || time.Since(began) > limit {
			return left, time.Since(s.at)
		}
	}
}

// steps lists the job's steps in Slurm.
func (s *slurmScene) steps() []string {
	if s.job == 0 {
		return nil
	}
	out, err := s.c.Command(s.t, "squeue", "-h", "-s", "-o", "%i", "-j", strconv.Itoa(s.job)).Output()
	if err != nil { // Slurm has forgotten the job
		return nil
	}
	return strings.Fields(string(out))
}

// around is the argv of a Slurm command that runs another command.
func (s *slurmScene) around(words ...string) []string {
	return s.c.Command(s.t, words[0], words[1:]...).Args
}

// form starts ranks in a form.
func (s *slurmScene) form(form string, program []string, options ...string) {
	switch form {
	case inAllocation:
		s.start(work{around: s.around("salloc", "-Q", "-N2", "--ntasks-per-node=2"), options: options, program: program})
	case inScript:
		s.script("exec ", program, options...)
	case underScript:
		s.script("", program, options...)
	case gorunEveryNode:
		s.start(work{
			around:  s.around("srun", "-N2", "--ntasks-per-node=1"),
			options: append([]string{"--nproc-per-node", "2"}, options...), program: program,
		})
	case gorunEveryRank:
		s.start(work{around: s.around("srun", "-N2", "-n4", "--ntasks-per-node=2"), options: options, program: program})
	}
}

// start is launch in the cluster.
func (s *slurmScene) start(w work) {
	w.environ = append(w.environ, "SLURM_CONF="+s.c.ConfigFile())
	s.launch(w)
}

// script runs gorun in a batch script, with a prefix before its command line.
func (s *slurmScene) script(prefix string, program []string, options ...string) {
	options = append([]string{"--report", s.path("report")}, options...)
	s.batch(prefix+shellLine(s.launcher.command(0, options, program))+"\n", "-N2", "--ntasks-per-node=2")
}

// shellLine quotes words for a shell.
func shellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// batch submits lines of a shell; the end of the scene ends the job.
func (s *slurmScene) batch(lines string, options ...string) {
	name, value, _ := strings.Cut(s.mark, "=")
	script := "#!/bin/bash\nexport " + name + "=" + value + " " + sceneVariable + "=" + s.dir + " TMPDIR=" +
		s.temporary() + " XDG_STATE_HOME=" + s.path("state") + "\n" + lines
	options = append([]string{"--output=" + s.path("stdout"), "--error=" + s.path("stderr"), "--no-requeue"}, options...)
	s.job = s.c.Sbatch(s.t, script, options...)
	go func() {
		defer close(s.ended)
		s.c.Wait(s.t, s.job)
	}()
}

// result waits for the end of the command or of the batch job.
func (s *slurmScene) result() outcome {
	if s.command != nil {
		return s.scene.result()
	}
	select {
	case <-s.ended:
	case <-time.After(2 * s.launcher.limit):
		s.fail("hangs: %s", s.said())
	}
	status, number, _ := strings.Cut(s.c.Field(s.t, s.job, "ExitCode"), ":")
	code, _ := strconv.Atoi(status)
	if by, _ := strconv.Atoi(number); by != 0 {
		code = 128 + by
	}
	return outcome{s.text("stdout"), s.text("stderr"), code}
}

// spread starts four ranks of a shape and manner in a form, and waits for all their processes.
func (s *slurmScene) spread(form, shape, manner string, options ...string) []*member {
	s.form(form, role("rank", manner, shape), options...)
	return s.assembled(shape)
}

// assembled waits for four ranks and their other processes.
func (s *slurmScene) assembled(shape string) []*member {
	ranks := s.await("rank", 4)
	if shape != "none" {
		s.await("child", 4)
	}
	s.settle(ranks)
	return ranks
}

// settle records the job's number and its guards, which gone needs.
func (s *slurmScene) settle(ranks []*member) {
	s.job, _ = strconv.Atoi(s.variable(ranks[0].pid, "SLURM_JOB_ID"))
	s.require(s.job > 0, "no SLURM_JOB_ID in rank 0")
	for _, p := range all() {
		if p.name != "job-guard" {
			continue
		}
		if parent, ok := read(p.parent); ok && slices.Contains(s.pids(), parent.pid) {
			s.guards = append(s.guards, p)
		}
	}
}

func (s *slurmScene) pids() (pids []int) {
	for _, p := range marked(s.mark) {
		pids = append(pids, p.pid)
	}
	return pids
}

// variable is the value of a variable in a process's environment.
func (s *slurmScene) variable(pid int, name string) string {
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for _, entry := range bytes.Split(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// gorun finds gorun processes: agents, or heads.
func (s *slurmScene) gorun(agents bool) (found []process) {
	s.until("gorun", func() bool {
		found = slices.DeleteFunc(marked(s.mark), func(p process) bool {
			words := argv(p.pid)
			return len(words) < 2 || words[0] != built("gorun") || (words[1] == "agent") != agents
		})
		return len(found) > 0
	})
	return found
}

// head is the gorun that runs the job; agent is the gorun on a rank's node.
func (s *slurmScene) head() process { return s.gorun(false)[0] }

func (s *slurmScene) agent(rank *member) process {
	node := s.variable(rank.pid, "SLURMD_NODENAME")
	for _, p := range s.gorun(true) {
		if s.variable(p.pid, "SLURMD_NODENAME") == node {
			return p
		}
	}
	s.fail("no agent on %s", node)
	return process{}
}

// named finds the processes of the job that run a program.
func (s *slurmScene) named(name string) []process {
	return slices.DeleteFunc(marked(s.mark), func(p process) bool { return p.name != name })
}

func argv(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
}

// strike sends a signal to a process as the fault.
func (s *slurmScene) strike(p process, number syscall.Signal) {
	s.at = time.Now()
	s.signal(p.pid, number)
}

// must runs scontrol, scancel and so on, and requires success. A step may end at scancel's first request; its second
// then finds none.
func (s *slurmScene) must(words ...string) {
	out, err := s.c.Command(s.t, words[0], words[1:]...).CombinedOutput()
	ended := strings.Contains(string(out), "error on job step id") && strings.Contains(string(out), "Invalid job id")
	s.require(err == nil || ended, "%v: %v: %s", words, err, out)
}

// number is the job number as text.
func (s *slurmScene) number() string { return strconv.Itoa(s.job) }

// saysInSlurm checks that a job ended with a code and that standard error contains all texts.
func saysInSlurm(code int, words ...string) func(*slurmScene, outcome) {
	return func(s *slurmScene, got outcome) {
		s.require(got.code == code, "exit code %d, wanted %d: %s", got.code, code, s.said())
		for _, word := range words {
			s.require(strings.Contains(got.stderr, word), "no word of %q: %s", word, s.said())
		}
	}
}
