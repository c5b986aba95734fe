package faults

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
)

// hostFault is one case of the matrix over hosts. The job runs on h1, h2 and h3; its launcher runs on the head.
type hostFault struct {
	name      string
	criterion string
	// soak cases run in `make soak` but not in `make test`.
	soak bool
	// deadline is how soon after the fault all processes and files must be gone on an idle machine; 0: no promise.
	deadline time.Duration
	act      func(s *hostScene)
	check    func(s *hostScene, got outcome)
}

// hostScene is a scene with processes on hosts of a set.
type hostScene struct {
	*scene
	set    *testhosts.Set
	before map[string]string // files of each host at the start
	undo   []func() error    // functions that repair the hosts
	struck time.Time         // time of the fault; zero: the end of act
	// mute hosts cannot run commands until they are repaired.
	mute []string
}

const (
	// hostsAtOnce is the number of sets, each for one case at a time. hostsOfSet is the number of hosts per set.
	hostsAtOnce = 3
	hostsOfSet  = 3
	// exitDeadline is how soon a launcher exits after the loss of a host. It detects the loss within 20 s; 2 s of
	// grace and 2 s more follow.
	exitDeadline = 24 * time.Second
	// sampleHeartbeat makes a lease of five seconds, for cases that wait for its expiry. `make soak` uses the real
	// lease.
	sampleHeartbeat = "1"
)

// hostFaults are all cases over hosts. Names are unique.
func hostFaults() []hostFault {
	return slices.Concat(linkFaults(), farProcessFaults(), farRankFaults(), farEndFaults(), seamFaults(),
		unreachableFaults())
}

// Jobs over hosts are subject to every fault. This runs a sample; `make soak` runs all cases and more random ones.
func TestHosts(t *testing.T) {
	testneeds.Hosts(t)
	random := testneeds.Rand(t)
	cases := slices.DeleteFunc(hostFaults(), func(f hostFault) bool { return f.soak && !testneeds.Soak() })
	for n := range testneeds.Count(5, 50) {
		cases = append(cases, drawCut(random).asFault(n))
	}
	t.Cleanup(func() { blamed.check(t) })
	sets := make(chan *testhosts.Set, hostsAtOnce)
	for range hostsAtOnce {
		sets <- testhosts.Up(t, testhosts.Config{Hosts: hostsOfSet, PrivateTmp: true, PrivateHome: true, Keep: []string{bin}})
	}
	for _, f := range cases {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			set := <-sets
			defer func() { sets <- set }()
			v := f.try(known(t, "gorun"), set)
			report(t, fault{criterion: f.criterion}, v)
			blamed.add(t, f.name, v)
			if testneeds.Soak() && f.deadline > 0 && v.took > f.deadline {
				t.Errorf("the promise is %v", f.deadline)
			}
		})
	}
}

func TestNamesOfHostFaultsAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range hostFaults() {
		if seen[f.name] || f.criterion == "" || f.act == nil || f.check == nil {
			t.Errorf("case %q: its name is taken, or it has no criterion, act or check", f.name)
		}
		seen[f.name] = true
	}
}

// try runs a case on a set, and repairs the set.
func (f hostFault) try(l launcher, set *testhosts.Set) (v verdict) {
	l.argv = []string{
		built("gorun"), "--ssh-config", set.SSHConfig(), "-x", sceneVariable, "-x", markVariable,
		"--grace", "2",
	}
	inner, err := openSceneIn(l, set.Dir())
	if err != nil {
		return verdict{why: err.Error()}
	}
	s := &hostScene{scene: inner, set: set}
	defer s.close()
	if s.before, err = s.list(); err != nil {
		return verdict{why: err.Error()}
	}
	v.why = f.play(s)
	v.end = s.end()
	if exited := time.Since(s.struck); testneeds.Soak() && v.why == "" && f.deadline == cutDeadline &&
		exited > exitDeadline {
		v.why = fmt.Sprintf("the launcher ended after %v, promised were %v", exited, exitDeadline)
	}
	v.left, v.took = s.gone(v.why != "")
	if s.command != nil {
		_ = s.command.Process.Kill() // usually the process has ended
		<-s.ended
	}
	if err := s.mend(); err != nil {
		v.left = append(v.left, err.Error())
	}
	return v
}

// play runs act and check. It returns the reason if the criterion is not met.
func (f hostFault) play(s *hostScene) string {
	return fault{
		act: func(*scene) {
			f.act(s)
			if s.struck.IsZero() {
				s.struck = time.Now()
			}
		},
		check: func(_ *scene, got outcome) {
			if f.check != nil {
				f.check(s, got)
			}
		},
	}.play(s.scene)
}

// job starts ranks, one on each host unless the options change that.
func (s *hostScene) job(program []string, options ...string) {
	if !slices.Contains(options, "-H") {
		options = append([]string{"-H", "h1:1,h2:1,h3:1"}, options...)
	}
	s.launch(work{around: s.set.Command(testhosts.Head).Args, options: options, program: program})
}

// brief shortens the lease of a job, except in `make soak`.
func brief() []string {
	if testneeds.Soak() {
		return nil
	}
	return []string{"--heartbeat", sampleHeartbeat}
}

// lease is how long the launcher waits for a lost host, in the format of messages.
func lease() string {
	if testneeds.Soak() {
		return "15s"
	}
	return "5s"
}

// spread starts a rank of a shape and manner on each host, and waits for all their processes. Rank r is on host
// r+1.
func (s *hostScene) spread(shape, manner string, options ...string) []*member {
	s.job(role("rank", manner, shape), append(brief(), options...)...)
	ranks := s.await("rank", hostsOfSet)
	if shape != "none" {
		s.await("child", hostsOfSet)
	}
	return ranks
}

// strike applies a fault to hosts now, and undoes it at the end.
func (s *hostScene) strike(do, undo func() error) {
	s.struck = time.Now()
	if undo != nil {
		s.undo = append(s.undo, undo)
	}
	err := do()
	s.require(err == nil, "%v", err)
}

// gone waits until no process or file of the job remains on any host, and returns those that do.
func (s *hostScene) gone(failed bool) (left []string, took time.Duration) {
	for _, host := range s.mute { // repaired hosts now finish their cleanup
		_ = s.set.Thaw(host)
	}
	began := time.Now()
	if s.struck.IsZero() {
		s.struck = began
	}
	limit := s.launcher.leaving
	if failed {
		limit = peerLeaving
	}
	for {
		left = s.remains()
		if len(left) == 0 || time.Since(began) > limit {
			return left, time.Since(s.struck)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// remains lists the processes and files that are left of the job.
func (s *hostScene) remains() (left []string) {
	for _, p := range s.present() {
		left = append(left, p.String())
	}
	for _, host := range s.everywhere() {
		all, err := s.set.Processes(host)
		if err != nil {
			left = append(left, err.Error())
		}
		for _, p := range all {
			left = append(left, host+": "+p.String())
		}
	}
	if len(left) > 0 { // the last process removes the files
		return left
	}
	files, err := s.list()
	if err != nil {
		return []string{err.Error()}
	}
	for host, now := range files {
		if now != s.before[host] {
			left = append(left, fmt.Sprintf("%s: files %q, before %q", host, now, s.before[host]))
		}
	}
	return left
}

func (s *hostScene) everywhere() []string { return append(s.set.Hosts(), testhosts.Head) }

// list returns the temporary files of each host. A crashed host has none.
func (s *hostScene) list() (map[string]string, error) {
	files := map[string]string{}
	for _, host := range s.everywhere() {
		if slices.Contains(s.mute, host) {
			continue
		}
		out, err := s.set.Command(host, "ls", "-A", "/tmp", "/dev/shm").CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("list the files of %s: %w: %s", host, err, out)
		}
		files[host] = string(out)
	}
	return files, nil
}

// mend repairs the hosts and kills the processes that are left there.
func (s *hostScene) mend() (err error) {
	for _, undo := range slices.Backward(s.undo) {
		err = errors.Join(err, undo())
	}
	for _, host := range s.everywhere() {
		all, listed := s.set.Processes(host)
		err = errors.Join(err, listed)
		for _, p := range all {
			err = errors.Join(err, s.set.Signal(host, p, syscall.SIGKILL))
		}
	}
	return err
}

// agent is the gorun process on a host; the function waits for it.
func (s *hostScene) agent(host string) (agent testhosts.Process) {
	s.until("an agent on "+host, func() (found bool) {
		agent, found = s.findAgent(host)
		return found
	})
	return agent
}

// findAgent looks for that process once.
func (s *hostScene) findAgent(host string) (agent testhosts.Process, found bool) {
	all, _ := s.set.Processes(host)
	for _, p := range all {
		if len(p.Args) > 1 && strings.HasSuffix(p.Args[0], "/gorun") && p.Args[1] == "agent" {
			return p, true
		}
	}
	return agent, false
}

// signalAgent sends a signal to the gorun process on a host.
func (s *hostScene) signalAgent(host string, number syscall.Signal) {
	agent := s.agent(host)
	s.strike(func() error { return s.set.Signal(host, agent, number) }, nil)
}

// says checks that a job ended with a code and that standard error contains all texts.
func says(code int, words ...string) func(*hostScene, outcome) {
	return func(s *hostScene, got outcome) {
		s.require(got.code == code, "exit code %d, wanted %d: %s", got.code, code, s.said())
		for _, word := range words {
			s.require(strings.Contains(got.stderr, word), "no word of %q: %s", word, s.said())
		}
	}
}

// lost checks that the job reports a host as lost, with the reason.
func lost(host, why string) func(*hostScene, outcome) { return says(125, host+" is lost", why) }
