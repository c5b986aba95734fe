package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gorun/internal/testneeds"
)

// inCgroup makes a cgroup with a limit and returns a command prefix that executes a command in it.
func (s *scene) inCgroup(controller string, limit int) []string {
	place, err := testneeds.FindCgroup(controller)
	s.require(err == nil, "%v", err)
	dir, err := place.Make(controller)
	s.require(err == nil, "%v", err)
	s.cgroups = append(s.cgroups, dir)
	err = place.Limit(dir, controller, limit)
	s.require(err == nil, "%v", err)
	if controller == "memory" { // no swap either; a machine may have no such files, or no swap
		for name, value := range map[string]string{
			"memory.memsw.limit_in_bytes": fmt.Sprint(limit),
			"memory.swappiness":           "0", "memory.swap.max": "0",
		} {
			_ = os.WriteFile(filepath.Join(dir, name), []byte(value), 0o644)
		}
	}
	return shell(`echo $$ > ` + dir + `/cgroup.procs && exec "$@"`)
}

// removeCgroups removes cgroups as soon as they are empty; zombies count as processes.
func (s *scene) removeCgroups() (left []string) {
	for _, dir := range s.cgroups {
		err := os.Remove(dir)
		for end := time.Now().Add(peerLeaving); err != nil && time.Now().Before(end); err = os.Remove(dir) {
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil {
			left = append(left, err.Error())
		}
	}
	s.cgroups = nil
	return left
}

const (
	// memoryLimit, in bytes, is far more than gorun and two ranks need. hungry, in MiB, is the size of a rank that
	// uses too much.
	memoryLimit = 128 << 20
	hungry      = "512"
)

// memoryFaults are faults with too little memory.
func memoryFaults() []fault {
	starve := func(s *scene) []*member {
		s.launch(work{around: s.inCgroup("memory", memoryLimit), ranks: 2, program: role("rank", "default", "none")})
		ranks := s.await("rank", 2)
		s.awaitWatch()
		return ranks
	}
	return []fault{
		{
			name: "rank out of memory", own: true, root: true, cgroup: "memory",
			criterion: "exit code 137, rank 1 named, killed by the kernel for lack of memory, the cgroup's limit named",
			act: func(s *scene) {
				rank := starve(s)[1]
				s.order(rank, "allocate "+hungry)
				_, _ = rank.conn.Write([]byte("exit 70\n")) // in case the rank survives
			},
			check: together(
				blames(137, "killed by the kernel, out of memory ("),
				contains(onStderr, "  why      node: out of memory: limit 128 MiB (memory."),
				contains(onStderr, "  hint     lower `--nproc-per-node` or raise the limit: 2 ranks share 128 MiB\n"),
			),
		},
		{
			name: "child of a rank out of memory, the rank SIGKILL from outside", own: true, root: true, cgroup: "memory",
			criterion: "exit code 137 and rank 1 named; it is distinguished from the child where the kernel's log can be read",
			act: func(s *scene) {
				ranks := starve(s)
				s.demand(ranks[1], "child "+hungry)
				s.signal(ranks[1].pid, syscall.SIGKILL)
			},
			check: func(s *scene, got outcome) {
				s.blame(got, 1, 137, "killed by ")
				log, err := os.Open("/dev/kmsg")
				if err != nil {
					return
				}
				log.Close()
				contains(onStderr, "killed by SIGKILL from outside gorun (")(s, got)
			},
		},
	}
}

// awaitWatch waits until gorun has opened the kernel log, after it has read the kernel's out-of-memory counter. If
// gorun may not open the log, one second is enough for the counter.
func (s *scene) awaitWatch() {
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.command.Process.Pid))
		for _, fd := range open {
			if file, _ := os.Readlink(fd); file == "/dev/kmsg" {
				return
			}
		}
	}
}

// taskFaults are faults with too few processes.
func taskFaults() []fault {
	const user = "54321" // no account has it, so no other processes count
	named := func(limit string, counts ...string) func(*scene, outcome) {
		return func(s *scene, got outcome) {
			fits := strings.Contains(got.stderr, limit)
			for _, count := range counts {
				fits = fits && strings.Contains(got.stderr, count)
			}
			s.require(got.code == 0 || got.code == 125 && fits, "exit code %d and no word of the limit: %s", got.code, s.said())
		}
	}
	asUser := func(limit string) []string {
		return []string{"prlimit", "--nproc=" + limit, "setpriv", "--reuid", user, "--regid", user, "--clear-groups"}
	}
	return []fault{
		{
			name: "ulimit -u 40, 64 ranks", own: true, root: true,
			criterion: "the job works, or fails with a message that names the limit",
			act: func(s *scene) {
				s.own(54321)
				s.launch(work{around: asUser("40:40"), ranks: 64, program: []string{"true"}})
			}, check: named("ulimit -u", "40", "64 ranks"),
		},
		{
			name: "pids.max 40, 64 ranks", own: true, root: true, cgroup: "pids",
			criterion: "the job works, or fails with a message that names the limit",
			act: func(s *scene) {
				s.launch(work{around: s.inCgroup("pids", 40), ranks: 64, program: []string{"true"}})
			}, check: named("pids.max is 40", "64 ranks"),
		},
		{
			name: "pids.max 90, 64 ranks with threads", own: true, root: true, cgroup: "pids",
			criterion: "ranks that were started take what others need: exit code 125 and a message that names the limit, or a " +
				"rank that says so itself",
			act: func(s *scene) {
				s.launch(work{around: s.inCgroup("pids", 90), ranks: 64, program: role("rank", "default", "none")})
			}, check: func(s *scene, got outcome) {
				itself := got.code == 2 && strings.Contains(got.stderr, "failed to create new OS thread") &&
					strings.Contains(got.stderr, " failed first: ")
				s.require(itself || got.code == 125 && strings.Contains(got.stderr, "pids.max is 90"),
					"exit code %d and no word of the limit: %s", got.code, s.said())
			},
		},
		{
			name: "a rank takes all processes of the cgroup, another exits 3", own: true, root: true, cgroup: "pids",
			criterion: "exit code 3, rank 1 named, its lines are there",
			act: func(s *scene) {
				ranks := s.crowd()
				s.demand(ranks[0], "fork")
				s.order(ranks[1], "say 50000")
				s.order(ranks[1], "exit 3")
			}, check: together(blames(3, "exit code 3"), contains(onStdout, "rank 1 says line 49999\n")),
		},
		{
			name: "a rank takes all processes of the cgroup, launcher SIGKILL", own: true, root: true, cgroup: "pids",
			criterion: "nothing left",
			act: func(s *scene) {
				s.demand(s.crowd()[0], "fork")
				s.signal(s.command.Process.Pid, syscall.SIGKILL)
			}, check: ends(137),
		},
		{
			name: "a rank's child takes all processes of the cgroup again and again, launcher SIGTERM", own: true, root: true,
			cgroup: "pids", criterion: "exit code 143",
			act: func(s *scene) {
				s.order(s.bombed()[0], "say 50000")
				s.signal(s.command.Process.Pid, syscall.SIGTERM)
			}, check: ends(143),
		},
		{
			name: "a rank's child takes all processes of the cgroup again and again, launcher SIGKILL", own: true, root: true,
			cgroup: "pids", criterion: "nothing left",
			act: func(s *scene) {
				s.bombed()
				s.signal(s.command.Process.Pid, syscall.SIGKILL)
			}, check: ends(137),
		},
	}
}

// bombed starts a crowd. A child of its first rank uses up all processes of the cgroup.
func (s *scene) bombed() []*member {
	ranks := s.crowd()
	s.demand(ranks[0], "bomb")
	s.await("child", 1)
	return ranks
}

// crowd starts two ranks in a cgroup with a limit on processes.
func (s *scene) crowd() []*member {
	s.launch(work{
		around: s.inCgroup("pids", 100), ranks: 2, options: []string{"--label=always"},
		program: role("rank", "default", "none"),
	})
	ranks := s.await("rank", 2)
	s.demand(ranks[0], "threads 8")
	s.demand(ranks[1], "threads 8")
	if s.launcher.ours {
		s.until("a guard that has all its threads", func() bool {
			tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", s.guard(s.command.Process.Pid).pid))
			return len(tasks) > 4
		})
	}
	return ranks
}
