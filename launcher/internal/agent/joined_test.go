package agent

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/env/plan"
	"gorun/launcher/internal/program"
	"gorun/launcher/internal/reach"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// ownAgent returns the agent of a node that joined with two ranks of `python3 train.py --lr 1` in /work.
func ownAgent(temp string) *Agent {
	own := &Joined{
		Programs: []spec.Command{{Name: "train.py"}}, Ranks: 2, Dir: "/srv", Decides: plan.Decides,
		Accepts: plan.Accepts, Reports: plan.Sets,
	}
	a := &Agent{cfg: Config{TempDir: temp, Joined: own, Environ: []string{
		"PATH=/bin", "LD_PRELOAD=own.so", "GORUN_PYTHON=own-python", "GORUN_TOKEN=secret", "PMI_JOBID=7",
		"PMIX_PREFIX=own", "CUDA_VISIBLE_DEVICES=3", "RANK=9",
	}}}
	a.programs = []program.Resolved{{
		Path: "/usr/bin/python3",
		Argv: []string{"python3", "-u", "train.py", "--lr", "${local_rank}"}, ScriptArg: 3,
	}}
	return a
}

// ordinary returns a launcher's usual Start message.
func ordinary() wire.Start {
	return wire.Start{
		Apps:   []spec.App{{Path: "/usr/bin/python3", Argv: []string{"python3", "-u", "train.py"}, Dir: "/srv"}},
		Common: []string{"WORLD_SIZE=4"},
		Ranks: []wire.Row{
			{Process: spec.Process{Rank: 2}, Env: []string{"RANK=2"}},
			{
				Process: spec.Process{Rank: 3, LocalRank: 1, Argv: []string{"python3", "-u", "train.py", "--lr", "1"}},
				Env:     []string{"RANK=3"},
			},
		},
		Key: []byte{1}, ErrorFiles: true,
	}
}

func logsAt(dir string) func(s *wire.Start) {
	return func(s *wire.Start) {
		s.Logs = &wire.Logs{Logs: spec.Logs{Base: dir, Redirect: make([]spec.Streams, 2), Tee: make([]spec.Streams, 2)}}
	}
}

// A head may not name modules to import to a node that joined; its own command line does.
func TestNodeThatJoinedImports(t *testing.T) {
	python, err := exec.LookPath("python3")
	require.NoError(t, err)
	head, side := reach.Local()
	defer side.Close()
	a, s := ownAgent(t.TempDir()), ordinary()
	a.link, a.cfg.Subreaper, a.cfg.Joined.WarmImports = side, true, []string{"none_such"}
	s.Apps[0].Path, s.Apps[0].Dir = python, "/"
	s.Common = append(s.Common, "PATH="+os.Getenv("PATH")) // where Python looks for its modules
	a.warmJoined(&s)
	defer a.forks.Load().Close()
	said := ""
	for !strings.Contains(said, "ranks of a restart import their modules themselves") {
		f, err := head.Read()
		require.NoError(t, err, said)
		said += string(f.Body)
	}
	require.Contains(t, said, "No module named 'none_such'")
}

func TestWhatAHeadMayNotDo(t *testing.T) {
	temp := t.TempDir()
	for name, c := range map[string]struct {
		change func(s *wire.Start)
		want   string
	}{
		"another program": {func(s *wire.Start) {
			s.Apps = append(s.Apps, spec.App{Path: "/bin/sh"})
		}, "node 0 names 2 programs"},
		"no program":       {func(s *wire.Start) { s.Apps = nil }, "node 0 names 0 programs"},
		"a program beyond": {func(s *wire.Start) { s.Ranks[0].App = 1 }, "to program 1 of 1"},
		"a program before": {func(s *wire.Start) { s.Ranks[0].App = -1 }, "to program -1 of 1"},
		"other arguments": {func(s *wire.Start) {
			s.Ranks[0].Argv = []string{"python3", "-c", "evil"}
		}, "requests another command line"},
		"no arguments at all": {func(s *wire.Start) { s.Ranks[0].Argv = []string{} }, "requests another command line"},
		"another local rank's": {func(s *wire.Start) {
			s.Ranks[0].Argv = s.Ranks[1].Argv
		}, "requests another command line"},
		"more ranks": {func(s *wire.Start) {
			s.Ranks = append(s.Ranks, s.Ranks...)
		}, "node 0 requests 4 ranks here, this node's command line allows 2"},
		"log files elsewhere": {
			logsAt("/etc/cron.d/x"), "node 0 requests log files in /etc/cron.d/x, outside this node's log directory " + temp,
		},
		"log files above":      {logsAt(temp + "/../x"), "node 0 requests log files in"},
		"log files at the top": {logsAt(temp), "node 0 requests log files in"},
		"log files hidden":     {logsAt(temp + "/.ssh/x"), "node 0 requests log files in"},
		"log files deep below": {logsAt(temp + "/a/b/c/d"), "node 0 requests log files in"},
		"log files of another attempt": {func(s *wire.Start) {
			logsAt(temp + "/run/node1")(s)
			s.Attempt = 1
		}, "not in the directory of earlier attempts"},
		"names of files": {func(s *wire.Start) {
			s.Logs = &wire.Logs{Logs: spec.Logs{Base: temp, Names: []string{"/etc/%r"}}}
		}, "this node names none: give all nodes the same log options"},
		"a host that is a path": {func(s *wire.Start) {
			logsAt(temp + "/run/node1")(s)
			s.Logs.Host = "../.."
		}, `of host "../.."`},
		"many digits": {func(s *wire.Start) {
			logsAt(temp + "/run/node1")(s)
			s.Logs.Digits = 1 << 30
		}, "1073741824 digits"},
	} {
		s := ordinary()
		c.change(&s)
		assert.ErrorContains(t, ownAgent(temp).applyJoined(&s), c.want, name)
	}
	a, s := ownAgent(temp), ordinary()
	a.cfg.Joined.Ranks = 0
	a.counted.Store(1)
	assert.ErrorContains(t, a.applyJoined(&s), "node 0 requests 2 ranks here, this node's command line allows 1",
		"one for each device")
}

func TestMessagesOfHeadWithoutEffect(t *testing.T) {
	temp := t.TempDir()
	a := ownAgent(temp)
	hello := wire.Hello{
		Dir: "/evil", Environ: []string{"PATH=/evil"}, Ranks: 100, Device: "evil",
		Programs:  []spec.Command{{Name: "/bin/sh", Args: []string{"-c", "evil"}, Interpreter: "/evil", Dir: "/evil"}},
		ScanStore: true,
	}
	a.cfg.Joined.replacePrograms(&hello)
	assert.Equal(t, wire.Hello{Ranks: 2, Programs: []spec.Command{{Name: "train.py"}}, ScanStore: true}, hello)
	assert.Equal(t, []string{"CUDA_VISIBLE_DEVICES=3", "RANK=9"}, a.cfg.Joined.reportedEnviron(a.cfg.Environ),
		"what the head need not know stays here")

	s := ordinary()
	evil := []string{
		"LD_PRELOAD=evil.so", "PATH=/evil", "GORUN_PYTHON=/evil", "GORUN_SSH=/evil", "PMIX_PREFIX=/evil",
		"PMIX_MCA_x=/evil", "PYTHONPATH=/evil", "evil", "PWD=/evil", "TORCHELASTIC_ERROR_FILE=/evil",
		"GORUN_JOB_KEY=/evil", "PMIX_SERVER_URI3=evil", "NCCL_DEBUG=/evil",
	}
	s.Apps[0] = spec.App{Path: "/bin/sh", Argv: []string{"sh", "-c", "evil"}, Dir: "/evil", Build: true}
	s.Common, s.Ranks[0].Env = append(s.Common, evil...), append(s.Ranks[0].Env, evil...)
	require.NoError(t, a.applyJoined(&s))
	assert.Equal(t, []spec.App{{Path: "/usr/bin/python3", Argv: a.programs[0].Argv, Dir: "/srv"}}, s.Apps)
	assert.Equal(t, []string{
		"PATH=/bin", "LD_PRELOAD=own.so", "GORUN_PYTHON=own-python", "PMIX_PREFIX=own", "PWD=/srv",
		"WORLD_SIZE=4",
	}, s.Common)
	assert.Equal(t, []string{"RANK=2"}, s.Ranks[0].Env)
}

// An agent that refuses a request reports the reason to the launcher and starts nothing.
func TestHeadReceivesReasonOfRefusal(t *testing.T) {
	ours, theirs := net.Pipe()
	head := wire.NewLink(ours)
	served := make(chan error, 1)
	go func() {
		cfg := ownAgent(t.TempDir()).cfg
		cfg.Joined.Programs[0].Name = "true"
		served <- Serve(wire.NewLink(theirs), cfg)
	}()
	go func() {
		_ = head.Send(&wire.Hello{Version: wire.Version, Programs: []spec.Command{{Name: "sh"}}})
		_ = head.Send(&wire.Start{
			Window: 1 << 16, Apps: []spec.App{{Path: "/bin/sh"}},
			Ranks: []wire.Row{{Process: spec.Process{Argv: []string{"sh", "-c", "exit 3"}}}},
		})
	}()
	for {
		frame, err := head.Read()
		require.NoError(t, err)
		var job wire.Running
		if frame.Type == wire.TypeRunning {
			require.NoError(t, frame.Decode(&job))
			require.Empty(t, job.Ranks)
		}
		if frame.Type == wire.TypeStartFailed {
			var failed wire.StartFailed
			require.NoError(t, frame.Decode(&failed))
			require.Equal(t, 125, failed.Code)
			require.Contains(t, failed.Text, "node 0 requests another command line for rank 0 than this node has")
			break
		}
	}
	require.NoError(t, head.Close())
	require.Error(t, <-served)
}

// A second SIGINT also ends ranks to which the end of the job leaves time.
func TestSecondSIGINTWhileRanksEnd(t *testing.T) {
	ours, theirs := net.Pipe()
	head, signals, served := wire.NewLink(reach.Queued(ours)), make(chan syscall.Signal), make(chan error)
	cfg := ownAgent(t.TempDir()).cfg
	cfg.Environ, cfg.Signals, cfg.Joined.Dir = os.Environ(), signals, "/"
	script := "trap 'echo' TERM; echo; while :; do sleep 600 & wait; done"
	cfg.Joined.Programs[0] = spec.Command{Name: "sh", Args: []string{"-c", script}}
	go func() { served <- Serve(wire.NewLink(reach.Queued(theirs)), cfg) }()
	require.NoError(t, head.Send(&wire.Hello{Version: wire.Version, Programs: []spec.Command{{Name: "sh"}}}))
	require.NoError(t, head.Send(&wire.Start{Window: 1 << 16, Apps: []spec.App{{}}, Ranks: []wire.Row{{}}}))
	awaitLine := func() {
		for f := (wire.Frame{}); f.Type != wire.TypeOutput; {
			var err error
			f, err = head.Read()
			require.NoError(t, err)
			require.NotEqual(t, wire.TypeStartFailed, f.Type, "%s", f.Body)
		}
	}
	awaitLine()
	require.NoError(t, head.Send(&wire.JobEnded{Code: 130}))
	awaitLine() // it got SIGTERM
	for range 2 {
		select {
		case signals <- syscall.SIGINT:
		case <-served:
			require.Fail(t, "the ranks had all their time")
		}
	}
	require.ErrorAs(t, <-served, new(*OverError))
}

// Whatever a launcher sends, the accepted Start contains only this node's own program, environment and paths.
func FuzzHeadOfANodeThatJoined(f *testing.F) {
	s := ordinary()
	f.Add(wire.AppendControl(nil, &s))
	s.Ranks[0].Argv, s.Common = []string{"sh"}, []string{"LD_PRELOAD=x", "RANK"}
	f.Add(wire.AppendControl(nil, &s))
	logsAt("/tmp/run/node1")(&s)
	f.Add(wire.AppendControl(nil, &s))
	f.Fuzz(func(t *testing.T, frame []byte) {
		got, err := wire.NewReader(strings.NewReader(string(frame))).Read()
		var s wire.Start
		if err != nil || got.Type != wire.TypeStart || got.Decode(&s) != nil {
			return
		}
		a := ownAgent("/tmp")
		if a.applyJoined(&s) != nil {
			return
		}
		own := a.programs[0]
		require.Equal(t, []spec.App{{Path: own.Path, Argv: own.Argv, Dir: "/srv"}}, s.Apps)
		require.LessOrEqual(t, len(s.Ranks), 2)
		requireOwnEnvironment(t, a, s.Common)
		for _, r := range s.Ranks {
			requireOwnEnvironment(t, a, r.Env)
			require.Zero(t, r.App)
			if r.Argv != nil {
				require.Equal(t, own.Argv[:own.ScriptArg], r.Argv[:own.ScriptArg])
			}
		}
		if l := s.Logs; l != nil && l.Base != os.DevNull {
			require.Regexp(t, "^/tmp/[^./][^/]*(/[^./][^/]*){0,2}$", l.Base)
			require.Empty(t, l.Names)
		}
	})
}

func requireOwnEnvironment(t *testing.T, a *Agent, entries []string) {
	for _, entry := range entries {
		name, value, _ := strings.Cut(entry, "=")
		require.True(t, plan.Accepts(name, value) || slices.Contains(a.cfg.Environ, entry) || entry == "PWD=/srv", "%q",
			entry)
	}
}

// A process that is one rank runs no other rank.
func TestAHeadKeepsEachRankWhereItIs(t *testing.T) {
	temp := t.TempDir()
	for name, want := range map[string]spec.Task{
		"": {Rank: 2},
		"node 0 requests rank 2 here, this process is rank 3": {Rank: 3},
		"node 0 requests rank 2 here":                         {Rank: 2, LocalRank: 1},
	} {
		a := ownAgent(temp)
		a.cfg.Joined.Ranks, a.cfg.Joined.Task = 1, &want
		s := ordinary()
		s.Ranks = s.Ranks[:1]
		if err := a.applyJoined(&s); name == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, name)
		}
	}
}
