package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/version"
	"gorun/launcher/registry"
	"gorun/placement/draw"
)

func TestJobCommands(t *testing.T) {
	type options = registry.Request
	for line, want := range map[string]jobsRequest{
		"gorun ps":             {command: "ps"},
		"gorun ps 7f3a":        {command: "ps", names: []string{"7f3a"}},
		"gorun top --":         {command: "top"},
		"gorun ps --nccl":      {command: "ps", nccl: true},
		"gorun ps 7f3a --nccl": {command: "ps", names: []string{"7f3a"}, nccl: true},
		"gorun logs 7f3a -f --rank 3": {
			command: "logs", names: []string{"7f3a"}, Request: options{Follow: true, Rank: new(3)},
		},
		"gorun logs --follow --rank=0 -- -7": {
			command: "logs", names: []string{"-7"}, Request: options{Follow: true, Rank: new(0)},
		},
		"gorun logs -n 5 7f3a --stream stderr": {
			command: "logs", names: []string{"7f3a"}, stream: 2, Request: options{Tail: new(5)},
		},
		"gorun logs --tail=0 -f": {command: "logs", Request: options{Tail: new(0), Follow: true}},
		"gorun stacks --rank 1 7f3a": {
			command: "stacks", names: []string{"7f3a"}, Request: options{Rank: new(1)},
		},
		"gorun stop a b c": {command: "stop", names: []string{"a", "b", "c"}},
		"gorun stop a --signal INT b": {
			command: "stop", names: []string{"a", "b"}, Request: options{Signal: syscall.SIGINT},
		},
		"gorun stop --signal sighup a": {
			command: "stop", names: []string{"a"}, Request: options{Signal: syscall.SIGHUP},
		},
		"gorun stop --signal KILL a": {
			command: "stop", names: []string{"a"}, Request: options{Signal: syscall.SIGTERM, Grace: new(time.Duration)},
		},
		"gorun stop --all --grace 1.5": {command: "stop", all: true, Request: options{Grace: new(1500 * time.Millisecond)}},
		"gorun stop --grace 0 --signal=TERM a": {
			command: "stop", names: []string{"a"}, Request: options{Signal: syscall.SIGTERM, Grace: new(time.Duration)},
		},
	} {
		t.Run(line, func(t *testing.T) {
			got := *mustBe[*jobsRequest](t, line)
			got.commandLine, got.act = nil, nil
			assert.Equal(t, want, got)
		})
	}
	require.True(t, mustBe[*jobsRequest](t, "gorun ps --json").JSON)
	require.True(t, mustBe[*jobsRequest](t, "gorun ps -h 7f3a").HelpRequested())
}

func TestJobCommandProblems(t *testing.T) {
	for line, want := range map[string]string{
		"gorun ps a b":             "b: one job at a time; gorun ./ps starts a program of that name",
		"gorun ps --rank 1":        "unknown option --rank",
		"gorun logs --stream both": "not one of stdout, stderr",
		"gorun logs -n -1":         "-1",
		"gorun stop":               "no job given: gorun stop JOB..., or --all; gorun ps lists them",
		"gorun stop --all a":       "--all and a contradict each other",
		"gorun stop a --grace -1":  "--grace -1: a time cannot be negative",
		"gorun stop --signal USR1": "--signal USR1: not one of TERM, INT, HUP, KILL; kill -SIGNAL PID of a job's gorun " +
			"passes others on to its ranks",
		"gorun stop --signal x a": "--signal x: not one of TERM, INT, HUP, KILL",
		"gorun logs --rank -1":    "--rank -1: not a number from 0 on",
		"gorun logs --rank":       "--rank needs a value: --rank N",
	} {
		_, err := parsed[*jobsRequest](line)
		require.Error(t, err, line)
		assert.True(t, strings.Contains(err.Error(), want), "%s: %v", line, err)
	}
	_, err := parseWords([]string{"stop", ""}, aroundOf())
	assert.ErrorContains(t, err, "the name of a job is empty: an unset variable?")
}

func found(ids ...string) *jobsRequest {
	r := &jobsRequest{command: "top"}
	for _, id := range ids {
		r.found = append(r.found, registry.Handle{ID: id})
	}
	return r
}

func TestNamesOfJobs(t *testing.T) {
	r := found("7f3a00000001", "7f3b00000001", "9a0000000001")
	for name, want := range map[string]string{
		"9": "9a0000000001", "7f3A": "7f3a00000001",
		"7f3b00000001": "7f3b00000001",
	} {
		f, err := r.findJob(name)
		assert.NoError(t, err, name)
		assert.Equal(t, want, f.ID)
	}
	for name, want := range map[string]string{
		"":        "there are several jobs: gorun top JOB, with JOB one of 7f3a, 7f3b, 9a00",
		"7f3":     "several jobs begin with 7f3: 7f3a, 7f3b",
		"8":       "no job 8: there is 7f3a, 7f3b, 9a00; gorun ps lists them",
		"\x1b[2J": "no job \x1b[2j: there is 7f3a, 7f3b, 9a00; gorun ps lists them",
	} {
		_, err := r.findJob(name)
		assert.EqualError(t, err, strings.Replace(want, "2j", "2J", 1))
	}
	f, err := found("7f3a00000001").findJob("")
	assert.NoError(t, err)
	assert.Equal(t, "7f3a00000001", f.ID)
	_, err = found().findJob("7")
	assert.EqualError(t, err, noJobsText)
	assert.Equal(t, "7f3a0", found("7f3a00000001", "7f3a10000001").shortID("7f3a00000001"))
}

// answering registers one job in this process with a handler.
func answering(t *testing.T, answer registry.Handler) (r *jobsRequest, stdout, stderr *bytes.Buffer) {
	t.Helper()
	place := t.TempDir()
	e, err := registry.Register([]string{place}, "7f3a00000001", func(string) {}, answer)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	c := newCommandLine(dialect.Surroundings{}, nil, stdout, stderr)
	return &jobsRequest{found: registry.Find([]string{place}), commandLine: c}, stdout, stderr
}

// No command waits for ever for a job whose gorun is stopped, and the error shows how to resume it.
func TestSilentJob(t *testing.T) {
	t.Parallel()
	r, _, _ := answering(t, func(ctx context.Context, _ registry.Request, _ func(any) error) { <-ctx.Done() })
	r.names = []string{"7f3a"}
	var busy sync.WaitGroup
	for name, act := range map[string]func() error{
		"ps": r.ps, "top": r.top, "stop": r.stop, "stacks": r.stacks, "logs": r.logs, "nccl": r.psNCCL,
		"evidence": r.evidence,
	} {
		busy.Go(func() {
			errs := flatten(act())
			if !assert.Len(t, errs, 1, name) {
				return
			}
			assert.EqualError(t, errs[0],
				fmt.Sprintf("job 7f3a00000001 does not respond; if its gorun is suspended, resume it: kill -CONT %d", os.Getpid()),
				name)
		})
	}
	busy.Wait()
	assert.EqualError(t, unresponsive(r.found[0], 0), "job 7f3a00000001 does not respond; is its gorun suspended?")
}

// A job that ends during the request counts as missing, in JSON and in text.
func TestJobEndsMeanwhile(t *testing.T) {
	for _, json := range []bool{false, true} {
		r, stdout, _ := answering(t, func(context.Context, registry.Request, func(any) error) {})
		r.names, r.JSON = []string{"7f"}, json
		assert.ErrorIs(t, r.ps(), registry.ErrEnded)
		assert.Empty(t, stdout.String())
	}
}

// Evidence of which a part came is kept, and says so.
func TestEvidenceOfAJobThatEnds(t *testing.T) {
	r, _, stderr := answering(t, func(_ context.Context, q registry.Request, send func(any) error) {
		if q.Kind == registry.JobRequest {
			_ = send(registry.Job{})
		}
	})
	r.dir = filepath.Join(t.TempDir(), "evidence")
	require.NoError(t, r.evidence())
	assert.False(t, openEvidence(r.dir).index.Complete)
	assert.Contains(t, stderr.String(), "not all came")
}

func TestWhatNCCLSays(t *testing.T) {
	said := registry.NCCL{
		ID: "7f3a00000001", Lines: []string{"NCCL 2.30.7, 1 communicator", "rank 3 is\x1b[2J behind"},
		Silent: []string{"n\a2"}, Status: json.RawMessage(`{"version":"2.30.7"}`),
	}
	answer := func(_ context.Context, q registry.Request, send func(any) error) {
		if q.Kind == registry.NCCLRequest {
			_ = send(said)
			return
		}
		_ = send(registry.Job{})
	}
	r, stdout, _ := answering(t, answer)
	r.nccl = true
	require.NoError(t, r.ps())
	assert.Equal(t,
		"NCCL 2.30.7, 1 communicator\n  rank 3 is^[[2J behind\n  host n^G2 does not say what NCCL answers there\n",
		stdout.String())
	stdout.Reset()
	r.JSON = true
	require.NoError(t, r.ps())
	assert.JSONEq(t,
		envelope("nccl")+`"job": "7f3a00000001", "lines": ["NCCL 2.30.7, 1 communicator", "rank 3 is\u001b[2J behind"],
		"silent_hosts": ["n\u00072"], "status": {"version": "2.30.7"}}`,
		stdout.String())

	said = registry.NCCL{ID: "7f3a00000001", Error: "nobody\n"}
	stdout.Reset()
	r.JSON = false
	require.Equal(t, noJob("nobody^J"), r.ps())
	assert.Empty(t, stdout.String())
	r.JSON = true
	require.Equal(t, noJob("nobody^J"), r.ps())
	assert.JSONEq(t, envelope("nccl")+`"job": "7f3a00000001", "error": "nobody\n"}`,
		stdout.String(), "programs get the reason, too")
}

func TestNCCLOfOneOfSeveralJobs(t *testing.T) {
	r := found("7f3a00000001", "9a0000000001")
	r.command, r.nccl = "ps", true
	assert.EqualError(t, r.psNCCL(), "there are several jobs: gorun ps --nccl JOB, with JOB one of 7f3a, 9a00")
}

var moment = time.Unix(1_000_000, 0)

// ranks is a job whose ranks have used the given CPU times, in seconds.
func ranks(at time.Duration, used ...float64) registry.Job {
	j := registry.Job{
		ID: "7f3a00000001", State: "running", Program: "./train\x1b[2Jer", Args: []string{"--lr", "0.1"},
		PID: 7, Hosts: []string{"n1", "n2", "n3"}, NumRanks: len(used), Running: len(used),
		Began: moment.Add(-14 * time.Minute), At: moment.Add(at),
	}
	for i, u := range used {
		j.Ranks = append(j.Ranks, registry.Rank{
			Rank: i, Host: "n\x07", PID: 100 + i, State: "running", CPU: new(u),
			Memory: new(int64(64 << 20)), Output: new(int64(0)),
			At: j.At, Last: "step\x1b[31m",
		})
	}
	return j
}

func stragglers(use []rankUsage) (list []int) {
	for i, u := range use {
		if u.straggler {
			list = append(list, i)
		}
	}
	return list
}

func TestStraggler(t *testing.T) {
	for name, test := range map[string]struct {
		used    []float64 // in one second
		silence map[int]time.Duration
		want    []int
	}{
		"all busy":                   {used: []float64{0.9, 1, 1}},
		"all idle":                   {used: []float64{0, 0, 0.1}},
		"one waits, the others spin": {used: []float64{1, 0.03, 1, 0.97}, want: []int{1}},
		"one computes for all":       {used: []float64{0, 0.03, 0, 4}, want: []int{3}},
		"two of each":                {used: []float64{1, 1, 0, 0}},
		"one of each":                {used: []float64{1, 0}},
		"one in between":             {used: []float64{1, 0.5, 1, 0}},
		"silent for longer": {
			used: []float64{1, 1, 1}, silence: map[int]time.Duration{0: time.Second, 1: 11 * time.Second, 2: 2 * time.Second},
			want: []int{1},
		},
		"a little longer": {
			used: []float64{1, 1, 1}, silence: map[int]time.Duration{0: time.Second, 1: 4 * time.Second, 2: 2 * time.Second},
		},
		"all for long": {
			used: []float64{1, 1}, silence: map[int]time.Duration{0: time.Minute, 1: 70 * time.Second},
		},
		"one alone ever printed": {used: []float64{1, 1}, silence: map[int]time.Duration{0: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := ranks(0, make([]float64, len(test.used))...), ranks(time.Second, test.used...)
			assert.Equal(t, test.want, stragglers(usageBetween(from, to, test.silence)))
		})
	}
}

// Usage is unknown without two observations of the same process.
func TestUseBetween(t *testing.T) {
	from, to := ranks(0, 0, 0, 0, 1, 0), ranks(2*time.Second, 1, 1, 1, 0, 1)
	*to.Ranks[0].Output = 3 << 10
	to.Ranks[1].CPU = nil
	to.Ranks[2].PID = 9
	to.Ranks[4].Code = new(3)
	use := usageBetween(from, to, nil)
	var got []string
	for _, u := range use {
		got = append(got, u.cpuText()+" "+u.outputText())
	}
	assert.Equal(t, []string{"50 1.5K", "- 0", "- -", "0 0", "50 0"}, got)
	assert.Equal(t, "exit 3", rankState(to.Ranks[4]))
	first := usageBetween(registry.Job{}, to, nil)[0]
	assert.Equal(t, "- -", first.cpuText()+" "+first.outputText())
}

func TestSilences(t *testing.T) {
	var s outputClock
	look := func(at time.Duration, printed int64) map[int]time.Duration {
		j := ranks(at, 0, 0)
		*j.Ranks[1].Output = printed
		return s.observe(j)
	}
	assert.Empty(t, look(0, 5), "nobody knows when that was")
	assert.Equal(t, map[int]time.Duration{1: 0}, look(time.Second, 6))
	assert.Equal(t, map[int]time.Duration{1: 2 * time.Second}, look(3*time.Second, 6))
	assert.Equal(t, map[int]time.Duration{1: 0}, look(4*time.Second, 7))
}

// Tables escape text of a job and cut it to the terminal's width.
func TestJobTables(t *testing.T) {
	j := ranks(0, 0, 3725)
	v := jobTable{}
	jobs := []jobReply{{Job: j}, {Job: registry.Job{ID: "9a0000000001"}, err: assert.AnError}}
	short := func(id string) string { return id[:4] }
	assert.Equal(t, []string{
		"JOB   STATE      RANKS  HOSTS   AGE  PROGRAM",
		"7f3a  running    2/2    n[1-3]  14m  ./train^[[2Jer --lr 0.1",
		"9a00  no answer",
	}, v.jobs(jobs, short))
	assert.Equal(t, []string{
		"RANK  HOST  PID  STATE    TIME     MEM  OUT  LAST LINE",
		"0     n^G   100  running  0:00     64M  0    step^[[31m",
		"1     n^G   101  running  1:02:05  64M  0    step^[[31m",
	}, v.ranks(j, nil, nil))
	use := usageBetween(ranks(-time.Second, 0, 3725), j, map[int]time.Duration{0: 0, 1: 9200 * time.Millisecond})
	j.Silent = []string{"n3"}
	assert.Equal(t, []string{
		"RANK  HOST  STATE    CPU%  MEM  OUT/S  LAST LINE",
		"1     n^G   running  0     64M  0      < straggler +9 s  step^[[31m",
		"0     n^G   running  0     64M  0      step^[[31m",
		"host n3 does not say what its ranks use",
	}, jobTable{draw.Style{ASCII: true}}.ranks(j, use, nil))
	narrow := jobTable{draw.Style{Width: 30}}
	for _, line := range append(narrow.ranks(j, use, nil), narrow.title(j, "7f3a")) {
		assert.LessOrEqual(t, len([]rune(line)), 30, line)
	}
	assert.Equal(t, "job 7f3a  running  2/2 ranks …", narrow.title(j, "7f3a"))
}

func TestGPUsOfRanks(t *testing.T) {
	j := ranks(0, 0, 1)
	j.Ranks[0].GPUs, j.Ranks[0].Here = []string{"a", "b"}, true
	j.Ranks[1].GPUs = []string{"a"} // on another host
	gpus := gpuLoads{"a": {Busy: new(98), Taken: new(int64(70 << 30))}, "b": {Busy: new(50), Taken: new(int64(1 << 30))}}
	assert.Equal(t, []string{
		"RANK  HOST  PID  STATE    TIME  MEM  OUT  GPU%  GPUMEM  LAST LINE",
		"0     n^G   100  running  0:00  64M  0    74    71G     step^[[31m",
		"1     n^G   101  running  0:01  64M  0    -     -       step^[[31m",
	}, jobTable{}.ranks(j, nil, gpus))
	assert.Equal(t, "RANK  HOST  STATE    CPU%  MEM  OUT/S  GPU%  GPUMEM  LAST LINE",
		jobTable{}.ranks(j, usageBetween(j, j, nil), gpus)[0])
	assert.Nil(t, queryGPUs(ranks(0, 0)), "no process is asked without GPUs")
}

func TestSizesAndTimes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1023: "1023", 1024: "1.0K", 10 << 10: "10K", 1023 << 10: "1023K",
		3 << 19: "1.5M", 61 << 30: "61G", 5 << 50: "5120T",
	} {
		assert.Equal(t, want, sizeText(&n))
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 14 * time.Second: "14s", 14 * time.Minute: "14m",
		125 * time.Minute: "2h05m", 76 * time.Hour: "3d4h",
	} {
		assert.Equal(t, want, ageText(d))
	}
	assert.Equal(t, []string{"-", "-"}, []string{sizeText(nil), cpuTimeText(nil)})
}

// envelope is the beginning of a document, up to its own fields.
func envelope(kind string) string {
	return fmt.Sprintf(`{"schema": 1, "gorun": %q, "kind": %q, `, version.String(), kind)
}
