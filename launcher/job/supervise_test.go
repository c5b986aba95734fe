package job

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/launcher/internal/spec"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata with what the supervisor answers")

// TestSupervise replays the transcripts in testdata/supervise: paragraphs of one
// event, a line of dashes, and the expected orders.
func TestSupervise(t *testing.T) {
	files, err := filepath.Glob("testdata/supervise/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { replay(t, file) })
	}
}

func replay(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	got := transcript(t, string(text))
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	require.Equal(t, string(text), got)
}

// transcript returns the text with a fresh answer to each paragraph.
func transcript(t *testing.T, text string) string {
	var out []string
	var sup *Supervisor
	for _, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		events, _, _ := strings.Cut(paragraph, "\n----")
		var answer []string
		for _, line := range strings.Split(events, "\n") {
			if !strings.HasPrefix(line, "#") {
				answer = append(answer, perform(t, &sup, line)...)
			}
		}
		out = append(out, strings.Join(append([]string{events, "----"}, answer...), "\n"))
	}
	return strings.Join(out, "\n\n") + "\n"
}

func perform(t *testing.T, sup **Supervisor, line string) []string {
	words := strings.Fields(line)
	f := fields(t, words[1:])
	if words[0] == "job" {
		s, orders := NewSupervisor(SupervisorConfig{
			Nodes: f.nodes(), Grace: f.duration("grace"), Timeout: f.duration("timeout"), EndSignals: f.signals("end"),
			Preempt:   f.signal("preempt"),
			StartedAt: time.Unix(1_000_000, 0), SignalName: name, Engine: f.m["engine"],
			OnHang: map[string]OnHang{"report": HangReport}[f.m["hang"]],
			Policy: Policy{
				Continue: f.m["failure"] == "continue", MinSuccess: f.int("enough"),
				EarlyExit: map[string]EarlyExit{"warn": EarlyWarn, "fail": EarlyFail}[f.m["early"]],
			},
		})
		if f.m["checkpointed"] != "" {
			s.cfg.Checkpointed = f.ints("checkpointed")
		}
		*sup = s
		return orderLines(orders)
	}
	if words[0] == "result" {
		return resultLines((*sup).Result(), (*sup).Done())
	}
	return orderLines((*sup).Next(f.event(words[0])))
}

// values are the name=value pairs of a line.
type values struct {
	t *testing.T
	m map[string]string
}

func fields(t *testing.T, words []string) values {
	m := map[string]string{}
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		m[name] = value
	}
	return values{t, m}
}

func (v values) int(name string) int {
	n, err := strconv.Atoi(v.m[name])
	if v.m[name] != "" {
		require.NoError(v.t, err, name)
	}
	return n
}

func (v values) duration(name string) time.Duration {
	d, err := time.ParseDuration(v.m[name])
	if v.m[name] != "" {
		require.NoError(v.t, err, name)
	}
	return d
}

// at returns a time in seconds after an arbitrary epoch.
func (v values) at(name string) time.Time {
	if v.m[name] == "" {
		return time.Time{}
	}
	return time.Unix(1_000_000, 0).Add(v.duration(name))
}

func (v values) signal(name string) syscall.Signal { return unix.SignalNum(v.m[name]) }

func (v values) signals(name string) (list []syscall.Signal) {
	for _, s := range strings.FieldsFunc(v.m[name], func(r rune) bool { return r == ',' }) {
		list = append(list, unix.SignalNum(s))
	}
	return list
}

// nodes returns the ranks of each node, from their numbers: nodes=4 or nodes=2,2.
func (v values) nodes() (nodes [][]int) {
	rank := 0
	for _, n := range strings.Split(v.m["nodes"], ",") {
		count, err := strconv.Atoi(n)
		require.NoError(v.t, err)
		var ranks []int
		for range count {
			ranks = append(ranks, rank)
			rank++
		}
		nodes = append(nodes, ranks)
	}
	return nodes
}

func (v values) ints(name string) (list []int) {
	for _, word := range strings.Split(v.m[name], ",") {
		n, err := strconv.Atoi(word)
		require.NoError(v.t, err, name)
		list = append(list, n)
	}
	return list
}

// mpi returns the MPI state of a rank: mpi=begun or mpi=finalized.
func (v values) mpi() *spec.RankMPI {
	if v.m["mpi"] == "" {
		return nil
	}
	return &spec.RankMPI{Protocol: "PMI-1", Finalized: v.m["mpi"] == "finalized"}
}

func (v values) event(name string) Event {
	at := v.at("at")
	switch name {
	case "running":
		pids := map[int]int{}
		for i := range v.int("ranks") {
			pids[i] = 100 + i
		}
		return Running{Node: v.int("node"), PIDs: pids, At: at}
	case "start-failed":
		return StartFailed{Node: v.int("node"), Rank: v.int("rank"), Code: v.int("code"), Text: v.m["text"], At: at}
	case "mpi-aborted":
		return MPIAborted{Rank: v.int("rank"), MPIAbort: spec.MPIAbort{Code: v.int("code"), Why: v.m["why"]}, At: at}
	case "mpi-stuck":
		return MPIStuck{At: at, MPIStuck: spec.MPIStuck{
			Waiting: v.ints("waiting"), Missing: v.int("missing"), Initialized: v.m["missing-begun"] == "yes",
		}}
	case "exited":
		return Exited{PeerLost: v.m["peer"] == "lost", Exit: spec.Exit{
			Rank: v.int("rank"), Code: v.int("code"), Signal: v.signal("signal"), At: at,
			OthersBehind: v.m["others"] == "behind",
			RaisedAt:     v.at("raised"), SignalledAt: v.at("asked"), MPI: v.mpi(),
		}}
	case "gone":
		return CleanedUp{Node: v.int("node")}
	case "signalled":
		ev := Signalled{Signal: v.signal("signal"), At: at}
		if v.m["grace"] != "" {
			ev.Grace = new(v.duration("grace"))
		}
		return ev
	case "grace-known":
		return GraceKnown{Grace: v.duration("grace")}
	case "expired":
		return Expired{Timer: map[string]Timer{
			"deadline": TimerDeadline, "grace": TimerGrace, "kill": TimerKill,
			"note": TimerNote, "early": TimerEarly, "failure": TimerFailure, "engine": TimerEngine,
		}[v.m["timer"]], At: at}
	case "output-lost":
		return OutputLost{Stream: v.int("stream"), ReaderGone: v.m["reader"] == "gone", Text: v.m["text"], At: at}
	case "hung":
		return Hung{At: at}
	case "cancelled":
		return Cancelled{At: at}
	case "engine-signalled":
		return EngineSignalled{Signal: v.signal("signal"), At: at}
	case "engine-ends":
		return EngineStopping{At: at}
	case "nodes-joined":
		return NodesJoined{Text: v.m["text"], At: at}
	case "node-lost":
		return NodeLost{Node: v.int("node"), Text: v.m["text"], At: at}
	}
	require.Fail(v.t, "unknown event", name)
	return nil
}

func orderLines(orders []Order) (lines []string) {
	for _, o := range orders {
		switch o := o.(type) {
		case Signal:
			to := "processes"
			if o.Group {
				to = "groups"
			}
			if o.LeadersFirst {
				to += ", leaders first"
			}
			lines = append(lines, fmt.Sprintf("signal %s to %s", unix.SignalName(o.Number), to))
		case Kill:
			lines = append(lines, "kill")
		case Cleanup:
			lines = append(lines, fmt.Sprintf("end node=%d grace=%v", o.Node, o.Grace))
		case Arm:
			lines = append(lines, fmt.Sprintf("arm %v %v", o.Timer, o.After))
		case Note:
			lines = append(lines, "note "+o.Text)
		default:
			lines = append(lines, strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", o), "job.")))
		}
	}
	return lines
}

func resultLines(r Result, done bool) []string {
	lines := []string{fmt.Sprintf("done=%v cause=%q exit=%d", done, r.Cause, r.ExitCode)}
	if r.Cause == CauseRank && r.Signal != 0 {
		lines[0] += fmt.Sprintf(" signal=%d", r.Signal)
	}
	if r.Text != "" {
		lines = append(lines, r.Text)
	}
	if r.First != nil {
		lines = append(lines, fmt.Sprintf("first rank=%d code=%d signal=%s", r.First.Rank, r.First.Code,
			unix.SignalName(r.First.Signal)))
		for _, text := range []string{r.First.mpiHow(), r.First.earlyHint()} {
			if text != "" {
				lines = append(lines, text)
			}
		}
	}
	for _, e := range r.Ranks {
		line := fmt.Sprintf("rank %d %v", e.Rank, e.Fate)
		if e.Killed {
			line += ", killed"
		}
		lines = append(lines, line)
	}
	return lines
}
