package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/output"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// tailLines is the number of last lines kept of each stream. PyTorch's tracebacks are long and
// begin with the user's own frame.
const tailLines = 60

// consoleConfig has all ranks or, if each rank has a gorun of its own, the local ones.
func (h *head) consoleConfig() output.Config {
	c := h.settings.consoleConfig(h.spec.Output)
	c.Consumed, c.Failed, c.Tap = h.consumed, h.outputFailed, h.monitor.tap()
	p := h.plan.Load()
	for i := range p.Ranks {
		if r := &p.Ranks[i]; !h.spec.IsTask() || !h.nodes[r.Node].joined {
			info := rankInfo(p, r)
			info.Tee = h.teed(r.LocalRank)
			c.Ranks = append(c.Ranks, info)
		}
	}
	return c
}

// consoleConfig configures a console for o, which checkOutput has checked.
func (s *settings) consoleConfig(o job.OutputSpec) output.Config {
	template, _ := output.ParseTemplate(o.Template)
	pattern, _ := output.ParsePattern(o.Pattern)
	return output.Config{
		Pattern:   pattern,
		Merge:     o.Merge,
		Stdout:    destination(s.Stdout, s.Colour[0]),
		Stderr:    destination(s.Stderr, s.Colour[1]),
		Label:     output.Label(o.Label),
		Template:  template,
		Show:      localRankFilter(o.ShowLocalRanks),
		TailLines: tailLines,
	}
}

func destination(w io.Writer, colour bool) output.Destination {
	d := output.Destination{W: w, Terminal: isTerminal(w), Color: colour}
	if d.Terminal {
		d.Width, _ = terminalSize(w)
	}
	return d
}

// teed returns a local rank's streams that go to both files and console, which torchrun labels.
func (h *head) teed(localRank int) spec.Streams {
	if l := h.plan.Load().Logs; l != nil && l.Files() && h.spec.Output.LabelsTees() {
		return l.Tee[localRank]
	}
	return 0
}

// localRankFilter implements --local-ranks-filter.
func localRankFilter(localRanks []int) func(output.RankInfo) bool {
	if localRanks == nil {
		return nil
	}
	return func(r output.RankInfo) bool { return slices.Contains(localRanks, r.LocalRank) }
}

func (h *head) outputFailed(stream int, err error) {
	h.reportOutputLost(h.settings.notify, wire.OutputLost{
		Stream: stream, ReaderGone: errors.Is(err, syscall.EPIPE),
		Text: printable.Error(err),
	})
}

func (h *head) onOutputLost(n *node, m wire.OutputLost) error {
	if m.Stream != 1 && m.Stream != 2 {
		return wire.Violation("it lost output of stream %d; ranks have 1 and 2", m.Stream)
	}
	m.Text = printable.Text(m.Text)
	h.reportOutputLost(n.notify, m)
	return nil
}

func (h *head) reportOutputLost(notify func(string), m wire.OutputLost) {
	name := "standard output"
	if m.Stream == 2 {
		name = "standard error"
	}
	if !m.ReaderGone {
		notify(fmt.Sprintf("cannot write %s, output of ranks is lost: %s", name, m.Text))
	}
	h.post(job.OutputLost{Stream: m.Stream, ReaderGone: m.ReaderGone, Text: name + ": " + m.Text, At: time.Now()})
}

// closeGrace is how long a stuck reader of our output may delay the end of a job that a user ended.
const closeGrace = time.Second

// closeConsole waits until all output is written. A reader (a pager, a stopped terminal) may delay
// that until a user wants the job to end.
func (h *head) closeConsole(ctx context.Context) {
	closing, cancel := context.WithCancel(ctx)
	defer cancel()
	if cause := h.sup.Result().Cause; cause == job.CauseSignal || cause == job.CauseCancelled ||
		cause == job.CauseTimeout {
		closing, cancel = context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer cancel()
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = h.console.Close(closing) // failed writes have been reported
	}()
	for {
		select {
		case <-closed:
			return
		case sig := <-h.signals.received:
			if sig, ok := sig.(syscall.Signal); ok && job.Ends(sig) {
				cancel()
			}
		case <-h.monitor.stopRequests():
			cancel()
		}
	}
}

// asFile returns the file behind a reader or writer, or nil.
func asFile(w any) *os.File {
	f, _ := w.(*os.File)
	return f
}
