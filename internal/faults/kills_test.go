package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func signalName(number syscall.Signal) string { return unix.SignalName(number) }

// shapes are the process trees of ranks, with their descriptions.
var shapes = map[string]string{
	"none": "ranks alone", "child": "each rank has a child", "setsid": "each rank has a child in a session of its own",
	"daemon": "each rank has a double-forked daemon", "closed": "each rank has a child that closed all descriptors",
	"stopped": "each rank has a child stopped by SIGSTOP",
	"bare":    "each rank has a double-forked daemon with an empty environment",
	"traced":  "each rank traces a stopped child", "holder": "each rank's child holds its stdout open",
	"chain": "each rank has a chain of processes that fork and exit",
}

// manners are the reactions of ranks to SIGTERM, SIGINT and SIGHUP.
var manners = map[string]string{
	"default": "signals end them", "ignore": "they ignore signals", "handle": "they exit 0 on a signal",
	"follow": "they exit 9 on a signal",
}

// kill is a row of the matrix: the victim, the signal and the surroundings.
type kill struct {
	whom   string // rank: rank 1; all: the ranks; launcher; "": no process
	by     any    // a signal from outside, or an order to the rank
	shape  string
	manner string
	code   int
	how    string // expected text of the report, if the victim is a rank
}

// kills are the rows. For each shape SIGKILL hits a rank and the launcher, and SIGTERM stops the launcher.
func kills() []kill {
	const (
		hangup, interrupt, quit, killed, terminate = syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL,
			syscall.SIGTERM
	)
	rows := []kill{
		{"rank", terminate, "none", "default", 143, ""},
		{"rank", interrupt, "none", "default", 130, ""},
		{"rank", hangup, "none", "default", 129, ""},
		{"rank", killed, "none", "ignore", 137, ""},
		{"rank", killed, "none", "follow", 137, ""},
		{"rank", killed, "setsid", "ignore", 137, ""},
		{"rank", "signal 11", "none", "default", 139, "killed by SIGSEGV"},
		{"rank", "signal 6", "child", "default", 134, "killed by SIGABRT"},
		{"rank", "signal 10", "none", "handle", 138, "killed by SIGUSR1"},
		{"rank", "panic", "none", "default", 2, "exit code 2"},
		{"rank", "exit 3", "daemon", "default", 3, "exit code 3"},
		{"rank", "exit 3", "holder", "ignore", 3, "exit code 3"},
		{"rank", "exit 255", "none", "default", 255, "exit code 255"},
		{"launcher", terminate, "none", "handle", 143, ""},
		{"launcher", terminate, "none", "ignore", 143, ""},
		{"launcher", interrupt, "none", "default", 130, ""},
		{"launcher", interrupt, "setsid", "ignore", 130, ""},
		{"launcher", interrupt, "stopped", "default", 130, ""},
		{"launcher", hangup, "none", "default", 129, ""},
		{"launcher", hangup, "daemon", "handle", 129, ""},
		{"launcher", killed, "none", "ignore", 137, ""},
		{"launcher", killed, "setsid", "ignore", 137, ""},
		{"launcher", killed, "daemon", "ignore", 137, ""},
		{"launcher", terminate, "daemon", "ignore", 143, ""},
		{"launcher", terminate, "bare", "ignore", 143, ""},
		{"rank", killed, "bare", "ignore", 137, ""},
		{"nobody", "exit 0", "bare", "default", 0, ""},
		{"nobody", "exit 0", "holder", "ignore", 0, ""},
		{"nobody", "exit 0", "none", "default", 0, ""},
	}
	for _, shape := range []string{"none", "child", "setsid", "daemon", "closed", "stopped", "traced", "chain"} {
		rows = append(rows,
			kill{"rank", killed, shape, "default", 137, ""},
			kill{"launcher", killed, shape, "default", 137, ""},
			kill{"launcher", terminate, shape, "default", 143, ""})
		if shape != "none" {
			rows = append(rows, kill{"nobody", "exit 0", shape, "default", 0, ""})
		}
	}
	return rows
}

// killFaults makes cases from the rows.
func killFaults() []fault {
	var all []fault
	for _, k := range kills() {
		all = append(all, fault{name: k.name(), criterion: k.criterion(), act: k.act, check: k.check()})
	}
	return slices.Concat(all, specialKills(), sparedFaults(), buildFaults(), []fault{copiedMarkerFault()})
}

func (k kill) name() string {
	by := fmt.Sprint(k.by)
	if number, ok := k.by.(syscall.Signal); ok {
		by = signalName(number)
	}
	return fmt.Sprintf("%s %s, %s, %s", k.whom, by, k.shape, k.manner)
}

func (k kill) criterion() string {
	about := fmt.Sprintf("%s; %s", shapes[k.shape], manners[k.manner])
	switch {
	case k.whom == "rank":
		return fmt.Sprintf("exit code %d and rank 1 named (%s)", k.code, about)
	case k.whom == "launcher" && k.by == syscall.SIGKILL:
		return fmt.Sprintf("nothing left (%s)", about)
	}
	return fmt.Sprintf("exit code %d (%s)", k.code, about)
}

// act waits for all processes, and then kills.
func (k kill) act(s *scene) {
	ranks := s.surround(k.shape, k.manner)
	number, signalled := k.by.(syscall.Signal)
	switch {
	case k.whom == "launcher":
		s.signal(s.command.Process.Pid, number)
	case k.whom == "rank" && signalled:
		s.signal(ranks[1].pid, number)
	case k.whom == "rank":
		s.order(ranks[1], "%v", k.by)
	default:
		for _, rank := range ranks {
			s.order(rank, "%v", k.by)
		}
	}
}

// surround starts two ranks of a shape and manner, and waits for all their processes.
func (s *scene) surround(shape, manner string) []*member {
	s.launch(work{ranks: 2, program: role("rank", manner, shape)})
	return s.assembled(shape)
}

// assembled waits for two ranks and the other processes of their shape.
func (s *scene) assembled(shape string) []*member {
	ranks := s.await("rank", 2)
	if shape == "none" {
		return ranks
	}
	for _, child := range s.await("child", 2) {
		if state, reachesState := map[string]byte{"stopped": 'T', "traced": 't'}[shape]; reachesState {
			s.reachesState(child.pid, state)
		}
	}
	return ranks
}

// reachesState waits until a process, or its traced thread, reaches a state.
func (s *scene) reachesState(pid int, state byte) {
	s.until(fmt.Sprintf("process %d in state %c", pid, state), func() bool {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		return slices.ContainsFunc(tasks, func(task string) bool { p, ok := parse(task); return ok && p.state == state })
	})
}

// stay checks that ranks still obey, and ends them with success.
func (s *scene) stay(ranks []*member) {
	for _, rank := range ranks {
		s.order(rank, "say 1")
		_, err := rank.words.ReadString('\n')
		s.require(err == nil, "rank %d is gone: %v", rank.rank, err)
		s.order(rank, "exit 0")
	}
}

func (k kill) check() func(*scene, outcome) {
	if k.whom != "rank" {
		return ends(k.code)
	}
	how := k.how
	if number, ok := k.by.(syscall.Signal); ok {
		how = describeSignal(number)
	}
	return blames(k.code, how)
}

// specialKills are the kills that fit no row.
func specialKills() []fault {
	return []fault{
		{name: "launcher SIGINT twice", criterion: "exit code 130, though ranks ignore signals", act: func(s *scene) {
			s.surround("setsid", "tell")
			s.signal(s.command.Process.Pid, syscall.SIGINT)
			s.until("SIGINT at a rank", func() bool { return strings.Contains(s.text("stdout"), "got SIGINT\n") })
			s.signal(s.command.Process.Pid, syscall.SIGINT)
		}, check: ends(130)},
		{
			name:      "rank exits 3 while another is stopped",
			criterion: "exit code 3 and rank 1 named; a stopped rank keeps nothing alive", act: func(s *scene) {
				ranks := s.surround("none", "default")
				s.signal(ranks[0].pid, syscall.SIGSTOP)
				s.reachesState(ranks[0].pid, 'T')
				s.order(ranks[1], "exit 3")
			}, check: blames(3, "exit code 3"),
		},
		{name: "launcher SIGKILL while ranks are stopped", criterion: "nothing left", act: func(s *scene) {
			for _, rank := range s.surround("none", "default") {
				s.signal(rank.pid, syscall.SIGSTOP)
			}
			s.signal(s.command.Process.Pid, syscall.SIGKILL)
		}},
		{name: "launcher SIGSTOP, then SIGKILL", criterion: "nothing left", act: func(s *scene) {
			s.surround("daemon", "ignore")
			s.signal(s.command.Process.Pid, syscall.SIGSTOP)
			s.reachesState(s.command.Process.Pid, 'T')
			s.signal(s.command.Process.Pid, syscall.SIGKILL)
		}},
		{
			name: "ranks close their standard streams, one exits 4 later", criterion: "exit code 4 and rank 1 named",
			act: func(s *scene) {
				ranks := s.surround("none", "default")
				for _, rank := range ranks {
					s.order(rank, "hush")
					_, err := rank.words.ReadString('\n')
					s.require(err == nil, "rank %d is gone: %v", rank.rank, err)
				}
				s.order(ranks[1], "exit 4")
			}, check: blames(4, "exit code 4"),
		},
		{name: "one rank ends early", criterion: "exit code 0: the others go on to their own end", act: func(s *scene) {
			ranks := s.surround("none", "default")
			s.order(ranks[0], "exit 0")
			s.until("the end of rank 0", func() bool { _, ok := read(ranks[0].pid); return !ok })
			s.stay(ranks[1:])
		}, check: together(ends(0), contains(onStdout, "rank 1 says line 0"))},
		{name: "both ranks SIGKILL at once", criterion: "exit code 137", act: func(s *scene) {
			for _, rank := range s.surround("setsid", "default") {
				s.signal(rank.pid, syscall.SIGKILL)
			}
		}, check: ends(137)},
		{
			name: "a job inside a rank, its launcher SIGKILL", own: true,
			criterion: "exit code 137, nothing left of the inner job", act: func(s *scene) {
				s.launch(work{ranks: 1, program: s.launcher.command(2, nil, role("rank", "ignore", "setsid"))})
				ranks := s.assembled("setsid")
				inner, ok := read(ranks[0].pid)
				s.require(ok && inner.parent != s.command.Process.Pid, "no inner launcher: %v", inner)
				s.signal(inner.parent, syscall.SIGKILL)
			}, check: ends(137),
		},
		{
			name: "a job inside a rank, the outer launcher SIGKILL", own: true, criterion: "nothing left of both jobs",
			act: func(s *scene) {
				s.launch(work{ranks: 1, program: s.launcher.command(2, nil, role("rank", "ignore", "daemon"))})
				s.assembled("daemon")
				s.signal(s.command.Process.Pid, syscall.SIGKILL)
			},
		},
		{
			name: "launcher as PID 1 of a namespace, rank SIGKILL", own: true, root: true,
			criterion: "exit code 137 and rank 1 named", act: func(s *scene) {
				s.launch(work{
					around: []string{"unshare", "--pid", "--fork", "--mount-proc"}, ranks: 2,
					program: role("rank", "default", "daemon"),
				})
				s.signal(s.assembled("daemon")[1].pid, syscall.SIGKILL)
			}, check: blames(137, "killed by SIGKILL"),
		},
		{
			name: "ranks that change their user, launcher SIGKILL", own: true, root: true, criterion: "nothing left",
			act: func(s *scene) {
				setpriv := []string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"}
				s.launch(work{ranks: 2, program: slices.Concat(setpriv, role("rank", "ignore", "daemon"))})
				s.assembled("daemon")
				s.signal(s.command.Process.Pid, syscall.SIGKILL)
			},
		},
		{
			name: "ranks that change their user, launcher SIGTERM", own: true, root: true, criterion: "exit code 143",
			act: func(s *scene) {
				setpriv := []string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"}
				s.launch(work{ranks: 2, program: slices.Concat(setpriv, role("rank", "ignore", "setsid"))})
				s.assembled("setsid")
				s.signal(s.command.Process.Pid, syscall.SIGTERM)
			}, check: ends(143),
		},
	}
}

// copiedMarkerFault starts an unrelated process with the job's marker in the session of gorun's parent.
func copiedMarkerFault() fault {
	child := strings.Join(role("child", "default"), " ")
	line := `"$@" & while read job; do ` + child + ` & ` + `GORUN_JOB=$job ` + child + ` & done; wait`
	return fault{
		name: "a copy of the job's marker in the launcher's session, launcher SIGKILL", own: true,
		criterion: "processes with the marker are gone, all others of that session are spared",
		act: func(s *scene) {
			orders, writer, err := os.Pipe()
			s.require(err == nil, "%v", err)
			defer writer.Close()
			s.launch(work{
				around: append([]string{"setsid"}, shell(line)...), stdin: orders, ranks: 2,
				program: role("rank", "default", "none"),
			})
			rank, _ := read(s.await("rank", 2)[0].pid)
			s.guard(rank.parent)
			job := environ(rank.pid, "GORUN_JOB")
			fmt.Fprintln(writer, job)
			children := s.await("child", 2)
			s.signal(rank.parent, syscall.SIGKILL)
			s.until("the end of the marked", func() bool {
				return !slices.ContainsFunc(s.guards, process.lives) && len(marked("GORUN_JOB="+job)) == 0
			})
			lives := 0
			for _, c := range children {
				if now, ok := read(c.pid); ok && now.state != 'T' {
					lives++
					s.signal(c.pid, syscall.SIGKILL)
				}
			}
			shell, ok := read(s.command.Process.Pid)
			s.require(ok && shell.state != 'T', "the shell is gone, or stopped")
			s.signal(shell.pid, syscall.SIGKILL)
			s.require(lives == 1, "%d of two live", lives)
		},
	}
}

// environ is the value of a variable in the initial environment of a process.
func environ(pid int, name string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for entry := range strings.SplitSeq(string(text), "\x00") {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value
		}
	}
	return ""
}

// buildFaults kill gorun while it builds a Go program.
func buildFaults() []fault {
	var all []fault
	for _, number := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
		all = append(all, fault{
			name: "launcher " + signalName(number) + " while it builds a Go program", own: true,
			criterion: fmt.Sprintf("exit code %d; no go command, no compiler and no file is left", 128+int(number)),
			act: func(s *scene) {
				compiler := "#!/bin/sh\nexec " + strings.Join(role("compile"), " ") + "\n"
				s.require(os.Mkdir(s.path("bin"), 0o755) == nil, "no place for a compiler")
				s.require(os.WriteFile(s.path("bin/go"), []byte(compiler), 0o755) == nil, "no compiler")
				s.require(os.WriteFile(s.path("prog.go"), []byte("package main\n\nfunc main() {}\n"), 0o644) == nil, "no program")
				s.launch(work{
					ranks: 2, program: []string{s.path("prog.go")},
					environ: []string{"PATH=" + s.path("bin") + ":" + os.Getenv("PATH")},
				})
				s.await("child", 1)
				s.signal(s.command.Process.Pid, number)
			},
			check: together(ends(128+int(number)), emptied),
		})
	}
	return append(all, fault{
		name: "launcher SIGKILL while a real compiler runs", own: true,
		criterion: "exit code 137; no go command, no compiler and no file in TMPDIR is left",
		act: func(s *scene) {
			s.require(os.WriteFile(s.path("prog.go"),
				[]byte("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println() }\n"), 0o644) == nil, "no program")
			// the empty cache makes the compilation long
			s.launch(work{ranks: 2, program: []string{s.path("prog.go")}, environ: []string{"GOCACHE=" + s.path("cache")}})
			s.until("a compiler", func() bool {
				return slices.ContainsFunc(marked(s.mark), func(p process) bool { return p.name == "compile" })
			})
			s.require(len(s.files()) > 0, "the compiler's files are not in TMPDIR")
			s.signal(s.command.Process.Pid, syscall.SIGKILL)
		},
		check: together(ends(137), emptied),
	})
}

// emptied checks that TMPDIR is soon empty.
func emptied(s *scene, _ outcome) {
	s.until("an empty TMPDIR", func() bool { return len(s.files()) == 0 })
}

// sparedFaults are faults that one process must survive.
func sparedFaults() []fault {
	return []fault{
		{
			name: "launcher SIGUSR1", criterion: "every rank gets it, and the job goes on to its end, exit code 0",
			act: func(s *scene) {
				ranks := s.surround("none", "tell")
				s.signal(s.command.Process.Pid, syscall.SIGUSR1)
				s.until("SIGUSR1 at both ranks", func() bool {
					text := s.text("stdout")
					return strings.Contains(text, "rank 0 got SIGUSR1\n") && strings.Contains(text, "rank 1 got SIGUSR1\n")
				})
				s.stay(ranks)
			}, check: ends(0),
		},
		{name: "launcher SIGTSTP, then SIGCONT", criterion: "the ranks stop and go on, exit code 0", act: func(s *scene) {
			ranks := s.surround("none", "default")
			s.signal(s.command.Process.Pid, syscall.SIGTSTP)
			for _, rank := range ranks {
				s.reachesState(rank.pid, 'T')
			}
			s.reachesState(s.command.Process.Pid, 'T')
			s.signal(s.command.Process.Pid, syscall.SIGCONT)
			s.stay(ranks)
		}, check: ends(0)},
		{
			name:      "two jobs, one launcher SIGKILL",
			criterion: "nothing left of the one, the other goes on to its end, exit code 0", act: func(s *scene) {
				other, err := openScene(s.launcher)
				s.require(err == nil, "%v", err)
				defer other.close()
				ranks := other.surround("daemon", "default")
				s.surround("setsid", "default")
				s.signal(s.command.Process.Pid, syscall.SIGKILL)
				s.result()
				other.stay(ranks)
				ends(0)(other, other.result())
				left, _ := other.gone()
				s.require(len(left) == 0, "left of the other: %v", left)
			},
		},
		{
			name:      "a process older than the job, rank exits 3",
			criterion: "exit code 3, and the launcher's elder brother is spared", act: func(s *scene) {
				brother := strings.Join(role("child", "default"), " ")
				s.launch(work{around: shell(brother + ` & exec "$@"`), ranks: 2, program: role("rank", "default", "none")})
				elder := s.await("child", 1)[0]
				s.order(s.await("rank", 2)[1], "exit 3")
				s.result()
				s.require(syscall.Kill(elder.pid, syscall.SIGKILL) == nil, "it is gone")
			}, check: ends(3),
		},
	}
}

// guardFaults are faults of gorun's guard; other launchers have no guard.
func guardFaults() []fault {
	finish := func(s *scene, ranks []*member) {
		for _, rank := range ranks {
			s.order(rank, "exit 0")
		}
	}
	var all []fault
	for _, number := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		all = append(all,
			fault{
				name: "guard " + signalName(number), own: true, criterion: "the job goes on to its end, exit code 0",
				act: func(s *scene) {
					ranks := s.surround("daemon", "default")
					guard := s.guard(s.command.Process.Pid)
					s.signal(guard.pid, number)
					if number == syscall.SIGKILL {
						s.guard(s.command.Process.Pid, guard)
					}
					finish(s, ranks)
				}, check: ends(0),
			})
	}
	for _, manner := range []string{"default", "ignore"} {
		all = append(all,
			fault{
				name: "guard SIGKILL, then launcher SIGKILL, " + manner, own: true,
				criterion: "nothing left: a new guard took its place", act: func(s *scene) {
					s.surround("daemon", manner)
					guard := s.guard(s.command.Process.Pid)
					s.signal(guard.pid, syscall.SIGKILL)
					s.guard(s.command.Process.Pid, guard)
					s.signal(s.command.Process.Pid, syscall.SIGKILL)
				},
			},
			fault{
				name: "launcher SIGKILL, a second later guard SIGKILL, " + manner, own: true,
				criterion: "nothing left: the guard had its second", act: func(s *scene) {
					s.surround("setsid", manner)
					guard := s.guard(s.command.Process.Pid)
					s.signal(s.command.Process.Pid, syscall.SIGKILL)
					time.Sleep(time.Second) // the fault itself, not a synchronisation
					if guard.lives() {
						s.signal(guard.pid, syscall.SIGKILL)
					}
				},
			})
	}
	return append(all, fault{
		name: "launcher SIGTERM, then SIGKILL while ranks ignore it", own: true,
		criterion: "nothing left", act: func(s *scene) {
			s.surround("setsid", "tell")
			s.guard(s.command.Process.Pid)
			s.signal(s.command.Process.Pid, syscall.SIGTERM)
			s.until("SIGTERM at a rank", func() bool { return strings.Contains(s.text("stdout"), "got SIGTERM\n") })
			s.signal(s.command.Process.Pid, syscall.SIGKILL)
		},
	})
}

// terminalFaults are faults of the launcher's shell or terminal.
func terminalFaults() []fault {
	// inShell starts a job under a shell that leads the session of a terminal.
	inShell := func(s *scene, manner, shape string) []*member {
		tty, err := openTerminal()
		s.require(err == nil, "open a terminal: %v", err)
		s.launch(work{
			around: shell(`"$@"; code=$?; echo code $code; exit $code`), tty: tty, ranks: 2,
			program: role("rank", manner, shape),
		})
		return s.assembled(shape)
	}
	var all []fault
	for _, manner := range []string{"default", "ignore"} {
		all = append(all,
			fault{name: "terminal closed, " + manner, criterion: "nothing left (" + shapes["setsid"] + "; " +
				manners[manner] + ")", act: func(s *scene) {
				inShell(s, manner, "setsid")
				s.tty.master.Close()
			}},
			fault{name: "shell of a terminal SIGKILL, " + manner, criterion: "nothing left (" + shapes["daemon"] + "; " +
				manners[manner] + ")", act: func(s *scene) {
				inShell(s, manner, "daemon")
				s.signal(s.command.Process.Pid, syscall.SIGKILL)
			}},
			fault{name: "process group of a terminal SIGKILL, " + manner, criterion: "nothing left (" + shapes["daemon"] +
				"; " + manners[manner] + ")", act: func(s *scene) {
				inShell(s, manner, "daemon")
				s.require(syscall.Kill(-s.command.Process.Pid, syscall.SIGKILL) == nil, "no process group")
			}},
			fault{name: "Ctrl-C on a terminal, " + manner, criterion: "exit code 130, nothing left (" + shapes["setsid"] +
				"; " + manners[manner] + ")", act: func(s *scene) {
				inShell(s, manner, "setsid")
				_, err := s.tty.master.WriteString("\x03")
				s.require(err == nil, "press Ctrl-C: %v", err)
			}, check: ends(130)})
	}
	return append(all,
		fault{name: "shell of a script SIGKILL", criterion: "the job goes on to its own end", act: func(s *scene) {
			s.launch(work{around: shell(`"$@"; exit $?`), ranks: 2, program: role("rank", "default", "setsid")})
			ranks := s.assembled("setsid")
			s.signal(s.command.Process.Pid, syscall.SIGKILL)
			s.result()
			s.stay(ranks)
		}},
		fault{name: "nohup, SIGHUP", criterion: "the job goes on to its own end, exit code 0", act: func(s *scene) {
			s.launch(work{around: []string{"nohup"}, ranks: 2, program: role("rank", "default", "none")})
			ranks := s.assembled("none")
			s.signal(s.command.Process.Pid, syscall.SIGHUP)
			s.stay(ranks)
		}, check: ends(0)})
}
