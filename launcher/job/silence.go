package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Signs are what a rank did since the last check, with all of its processes.
type Signs struct {
	Rank    int
	CPU     int   // percent of one CPU; -1: not known
	GPU     int   // percent of its busiest GPU; -1: not known
	IO      int64 // bytes a second that it read and wrote, those of a disk nine times
	TCP     int64 // bytes a second of its own connections
	Network int64 // bytes a second that passed through its node's interfaces
	// Main, Runs and Received are what its main thread did: CPU time in ms a second, how often a second it waited,
	// and how often a minute with data that it had waited for.
	Main           int
	Runs, Received int64
	// Behind is where ranks wait that gorun's MPI servers or NCCL know to wait for others: "MPI_Init", "NCCL".
	Behind string
	// Collective is the function of a library for collectives in which its stack is; "": none, or nobody looked.
	Collective string
	Store      bool // it waits in the store
	Input      bool // it waits for standard input, which others write
}

// Use from which a rank works.
const (
	workCPU     = 2        // percent: on a busy host a rank gets less than it could use
	workGPU     = 20       // percent
	workIO      = 64 << 10 // bytes a second
	workTCP     = 8 << 10  // bytes a second: heartbeats of PyTorch, NCCL and others have less than 1 KiB/s
	workNetwork = 1 << 20  // bytes a second, of the whole node
	// Main threads have no watchdogs and hardly heartbeats. A program that waits for a flag or a child looks at it up to
	// 20 times a second.
	workMain     = 5 // ms a second
	workRuns     = 50
	workReceived = 30
)

// Kinds of what a rank does.
const (
	sleeps = iota // nothing that can be measured, or it waits for others
	polls         // computes, as far as can be seen from outside: a rank that waits in a collective may do so, too
	works
)

// doing says what the rank does. CPU time and GPUs prove nothing where a library is known to wait, since MPI, NCCL and
// others poll; bytes do.
func (s *Signs) doing() (verb, rest string, kind int) {
	switch {
	case s.IO >= workIO:
		return "use", "files", works
	case s.TCP >= workTCP:
		return "use", "the network", works
	case s.Received >= workReceived:
		return "receive", "data", works
	case s.Input:
		return "wait", "for standard input", works
	case s.Behind != "":
		return "wait", "in " + s.Behind, sleeps
	case s.Network >= workNetwork && s.CPU > 0:
		return "use", "the network", works
	case s.Collective != "":
		return "wait", "in " + s.Collective, sleeps
	case s.GPU >= workGPU:
		return "use", "GPUs", polls
	case s.CPU >= workCPU, s.Main >= workMain:
		return "compute", fmt.Sprintf("(%d %% CPU)", max(s.CPU, 1)), polls
	case s.Runs >= workRuns:
		return "poll", fmt.Sprintf("(%d times a second)", s.Runs), polls
	case s.Store:
		return "wait", "in the store", sleeps
	}
	return "sleep", "", sleeps
}

// Silence is what ranks do that print nothing.
type Silence struct {
	// Text names each kind of rank: "rank 1 computes (100 % CPU), ranks [0,2-3] wait in the store".
	Text string
	// Works is true if a rank works. With Doubt that is only known from its use of CPUs and GPUs: its stack may show
	// that it polls for others.
	Works, Doubt bool
}

// NewSilence tells whether any rank works, so that the others may be waiting for it.
func NewSilence(ranks []Signs) (s Silence) {
	type group struct {
		verb, rest string
		ranks      []int
		kind       int
	}
	var groups []*group
	s.Doubt = true
	for i := range ranks {
		verb, rest, kind := ranks[i].doing()
		s.Works, s.Doubt = s.Works || kind != sleeps, s.Doubt && kind != works
		at := slices.IndexFunc(groups, func(g *group) bool {
			return g.verb == verb && g.kind == kind && (kind == polls || g.rest == rest)
		})
		if at < 0 {
			at, groups = len(groups), append(groups, &group{verb: verb, rest: rest, kind: kind})
		}
		groups[at].ranks = append(groups[at].ranks, ranks[i].Rank)
	}
	s.Doubt = s.Doubt && s.Works
	slices.SortStableFunc(groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.kind, a.kind), cmp.Compare(len(a.ranks), len(b.ranks)))
	})
	var texts []string
	for _, g := range groups {
		who := rankNames(g.ranks)
		if len(groups) == 1 && len(ranks) > 1 {
			who = fmt.Sprintf("all %d ranks", len(ranks))
		}
		if len(g.ranks) == 1 {
			g.verb += "s"
		}
		texts = append(texts, strings.TrimSpace(who+" "+g.verb+" "+g.rest))
	}
	s.Text = strings.Join(texts, ", ")
	return s
}

// InCollective returns the function of a library for collectives that a stack is in, "" for none. The innermost frame
// comes first.
func InCollective(stack []string) string {
	function, _ := collectiveCall(stack)
	return function
}

// collectiveCall returns the outermost such function, and the place of its call: "all_reduce", "train.py:6".
func collectiveCall(stack []string) (function, place string) {
	for i, frame := range slices.Backward(stack) {
		function, place = cutFrame(frame)
		switch {
		case place == "mpi4py":
		case strings.HasPrefix(place, "torch/distributed/") && function != "wrapper": // c10d_logger.py
		case strings.HasPrefix(function, "MPI_"), strings.HasPrefix(function, "PMPI_"),
			strings.HasPrefix(function, "gloo::"), strings.HasPrefix(function, "gorun/comm."):
			function = strings.TrimPrefix(function, "P")
		default:
			continue
		}
		for _, caller := range stack[i+1:] {
			if name, outside := cutFrame(caller); name != "wrapper" {
				return function, outside
			}
		}
		return function, place
	}
	return "", ""
}

// HangWatch counts checks of a job that prints nothing. It measures no time: a job that was suspended (Ctrl-Z, and fg
// an hour later) has not been silent for that hour.
type HangWatch struct {
	Tick time.Duration // between two checks
	// Suspect and Limit are how long nothing happens before HangSuspected and HangCertain; 0: never. Busy counts ranks
	// that work as hanging, too.
	Suspect, Limit time.Duration
	Busy           bool

	quiet, idle     int // checks in a row without output, and those of them without certain work
	still           int // those of them without any
	suspected, said bool
}

const (
	hangChecks = 4                // that the shorter limit has at least
	longTick   = 10 * time.Second // a hang is noticed up to one tick late
)

// NewHangWatch returns a watch, nil if there is nothing to watch for.
func NewHangWatch(suspect, limit time.Duration, onHang OnHang) *HangWatch {
	shorter := min(cmp.Or(suspect, limit), cmp.Or(limit, suspect))
	if shorter <= 0 {
		return nil
	}
	tick := max(min(shorter/hangChecks, longTick), 1)
	return &HangWatch{Tick: tick, Suspect: suspect, Limit: limit, Busy: onHang == HangStopBusy}
}

// HangVerdict is what a check results in.
type HangVerdict int

const (
	HangNone      HangVerdict = iota
	HangBusy                  // nothing was printed for Limit, but ranks work; once
	HangSuspected             // once
	HangCertain
)

// Check takes whether anything was printed or changed in the store since the last check, and what ranks did. confirm
// looks at ranks more closely where a verdict depends on it.
func (w *HangWatch) Check(changed bool, seen Silence, confirm func() Silence) (v HangVerdict, confirmed Silence) {
	if changed {
		w.quiet, w.idle, w.still = 0, 0, 0
		return HangNone, seen
	}
	w.quiet, w.idle, w.still = w.quiet+1, w.idle+1, w.still+1
	if seen.Works {
		w.still = 0
		if !seen.Doubt {
			w.idle = 0
		}
	}
	count := w.still
	if seen.Doubt { // else a look at ranks that compute now and then could miss it
		count = w.idle
	}
	switch {
	case w.reached(count, w.Limit), w.Busy && w.reached(w.quiet, w.Limit):
		v = HangCertain
	case !w.suspected && w.reached(count, w.Suspect):
		v = HangSuspected
	case !w.said && w.reached(w.quiet, w.Limit):
		if seen.Doubt {
			seen = confirm()
		}
		if !seen.Works {
			return HangNone, seen
		}
		w.said = true
		return HangBusy, seen
	default:
		return HangNone, seen
	}
	if w.Busy && v == HangCertain {
		return v, seen
	}
	seen = confirm()
	switch {
	case !seen.Works:
		w.suspected = true
		return v, seen
	case w.said || v == HangSuspected:
		v = HangNone
	default:
		w.said, v = true, HangBusy
	}
	w.idle, w.still = 0, 0
	return v, seen
}

func (w *HangWatch) reached(checks int, limit time.Duration) bool {
	return limit > 0 && time.Duration(checks)*w.Tick >= limit
}

// Quiet is how long nothing was printed: "10m".
func (w *HangWatch) Quiet() string { return round(Seconds(time.Duration(w.quiet) * w.Tick)) }
