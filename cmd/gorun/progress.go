package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/launcher"
	"gorun/launcher/hosts"
)

const (
	barDelay    = 300 * time.Millisecond // before anything is drawn
	barInterval = 100 * time.Millisecond
	logInterval = 10 * time.Second // with -v
	eraseLine   = "\r\x1b[K"
)

// progressScreen shows how far the hosts of a job are: on a terminal by a line that is redrawn and vanishes at the end,
// and with -v by lines that stay.
type progressScreen struct {
	out     *os.File
	bar     bool // out is a terminal that can be drawn on
	verbose bool
	style   barStyle

	mu       sync.Mutex
	progress *launcher.Progress // nil: no hosts are being reached
	paused   int                // number of prompts
	drawn    bool
	logged   time.Duration // when the last line was logged
}

func newProgressScreen(inv dialect.Invocation, out *os.File, getenv func(string) string) *progressScreen {
	return &progressScreen{
		out: out, bar: !inv.Quiet && getenv("TERM") != "dumb" && term.IsTerminal(int(out.Fd())),
		verbose: inv.Verbose > 0 && !inv.Quiet,
		style:   barStyle{ascii: !show.UTF8(getenv), colour: show.Colour(out)},
	}
}

// begin implements the Progress of [launcher.Options].
func (s *progressScreen) begin(p *launcher.Progress) (end func()) {
	if !s.bar && !s.verbose {
		return func() {}
	}
	s.mu.Lock()
	s.progress = p
	s.mu.Unlock()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		s.run(stop)
	}()
	return func() {
		close(stop)
		<-stopped
		s.end(p)
	}
}

func (s *progressScreen) run(stop <-chan struct{}) {
	select {
	case <-stop:
		return
	case <-time.After(barDelay):
	}
	ended := make(chan os.Signal, 1)
	if s.bar {
		s.notifySignals(ended)
		defer signal.Stop(ended)
	}
	tick := time.NewTicker(barInterval)
	defer tick.Stop()
	for {
		s.draw()
		select {
		case <-stop:
			return
		case sig := <-ended:
			s.erase()
			signal.Stop(ended)
			endBySignal(sig)
			return
		case <-tick.C:
		}
	}
}

// endBySignal ends this process by a signal that it caught.
func endBySignal(sig os.Signal) {
	signal.Reset(sig)
	_ = unix.Kill(unix.Getpid(), sig.(syscall.Signal))
}

// notifySignals catches the signals that end this process, so that it can erase the line first. Ignored signals stay
// ignored.
func (s *progressScreen) notifySignals(ch chan<- os.Signal) {
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) {
			signal.Notify(ch, sig)
		}
	}
}

// draw redraws the line and, with -v, logs one from time to time.
func (s *progressScreen) draw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused > 0 || s.progress == nil {
		return
	}
	elapsed, list := s.progress.Elapsed(), s.progress.Hosts()
	if s.verbose && elapsed-s.logged >= logInterval {
		s.logged = elapsed
		s.write(fmt.Sprintf("gorun: %s; %s\n", reachedCount(list, elapsed), strings.Join(waitingTexts(list), " · ")))
	}
	if s.bar {
		s.drawn = true
		_, _ = s.out.WriteString("\r" + s.style.line(list, elapsed, cmp.Or(show.Width(s.out), defaultWidth)) + "\x1b[K")
	}
}

// write replaces the bar.
func (s *progressScreen) write(text string) {
	if s.drawn {
		text = eraseLine + text
	}
	_, _ = s.out.WriteString(text)
	s.drawn = false
}

func (s *progressScreen) erase() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drawn {
		s.write("")
	}
}

func (s *progressScreen) end(p *launcher.Progress) {
	s.erase()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = nil
	if !s.verbose {
		return
	}
	list := p.Hosts()
	s.write("gorun: " + reachedCount(list, p.Elapsed()) + "\n")
	var copied []string
	for _, h := range list {
		if h.Ready && h.Sent > 0 {
			copied = append(copied, h.Name)
		}
	}
	if len(copied) > 0 {
		s.write("gorun: copied itself to " + hosts.NodeList(copied) + "\n")
	}
}

// pause stops drawing until resume is called.
func (s *progressScreen) pause() (resume func()) {
	s.erase()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.paused--
	}
}

// wrapNotices has notices replace the line, which is then redrawn below them.
func (s *progressScreen) wrapNotices(notice func(launcher.Notice) string) func(launcher.Notice) string {
	return func(n launcher.Notice) string {
		line := notice(n)
		s.mu.Lock()
		defer s.mu.Unlock()
		if line != "" && s.bar && s.progress != nil {
			return eraseLine + line
		}
		return line
	}
}

func reachedCount(list []launcher.HostProgress, elapsed time.Duration) string {
	ready := 0
	for _, h := range list {
		if h.Ready {
			ready++
		}
	}
	return fmt.Sprintf("%d of %d hosts reached after %s", ready, len(list), seconds(elapsed))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// defaultWidth is the width of a terminal that does not report one.
const defaultWidth = 80

type barStyle struct{ ascii, colour bool }

const barCells = 24

// line formats the line, narrower than the terminal: a line that wraps cannot be redrawn.
func (s barStyle) line(list []launcher.HostProgress, elapsed time.Duration, width int) string {
	ready, done := 0, 0.0
	for _, h := range list {
		if h.Ready {
			ready++
		}
		done += progressOf(h)
	}
	full := int(math.Floor(done / float64(max(len(list), 1)) * barCells))
	tail := fmt.Sprintf(" %d/%d hosts  %s", ready, len(list), seconds(elapsed))
	if words := waitingTexts(list); len(words) > 0 {
		separator := " · "
		if s.ascii {
			separator = ", "
		}
		tail += "   " + strings.Join(words, separator)
	}
	const title = "Reaching "
	room := width - 1 - len(title) - barCells
	if room < 16 {
		return s.clip(title+strings.TrimSpace(tail), width-1)
	}
	return title + s.cells(full) + s.clip(tail, room)
}

func (s barStyle) cells(full int) string {
	done, rest := "━", "─"
	if s.ascii {
		done, rest = "=", "."
	}
	left, right := strings.Repeat(done, full), strings.Repeat(rest, barCells-full)
	if s.colour {
		return "\x1b[32m" + left + "\x1b[0;2m" + right + "\x1b[0m"
	}
	return left + right
}

func (s barStyle) clip(text string, width int) string {
	return show.Clip(text, width, map[bool]string{true: "~", false: "…"}[s.ascii])
}

// progressOf estimates a host's progress, from 0 to 1.
func progressOf(h launcher.HostProgress) float64 {
	switch {
	case h.Ready || h.Failed:
		return 1
	case h.Reached && h.Total > 0:
		return 0.5 + 0.4*float64(h.Sent)/float64(h.Total)
	case h.Reached:
		return 0.5
	}
	return 0
}

// waitingTexts say which hosts failed, then which are still at which step.
func waitingTexts(list []launcher.HostProgress) (texts []string) {
	groups := groupBySteps(list)
	waiting := false
	for _, g := range groups {
		text := hosts.NodeList(g.names) + " " + g.text
		if !g.failed && !waiting {
			waiting, text = true, "waiting: "+text
		}
		texts = append(texts, text)
	}
	return texts
}

// progressGroup holds the hosts that are at the same step.
type progressGroup struct {
	names       []string
	text        string
	failed      bool
	sent, total int64
}

// stepTexts describe steps whose names do not say enough.
var stepTexts = map[string]string{
	"waiting": "not begun", "configuration": "reading ~/.ssh/config", "resolve": "looking up", "connect": "connecting",
	"copy": "copying gorun", "start": "starting gorun",
}

// groupBySteps groups the hosts that are not ready: the failed ones first, then the smallest group, which is the most
// interesting one if the line is too short for all.
func groupBySteps(list []launcher.HostProgress) []*progressGroup {
	var groups []*progressGroup
	for _, h := range list {
		if h.Ready {
			continue
		}
		text := cmp.Or(stepTexts[h.Step], h.Step)
		if h.Failed {
			text = "failed (" + h.Step + ")"
		}
		at := slices.IndexFunc(groups, func(g *progressGroup) bool { return g.text == text })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &progressGroup{text: text, failed: h.Failed})
		}
		g := groups[at]
		g.names = append(g.names, h.Name)
		g.sent, g.total = g.sent+h.Sent, g.total+h.Total
	}
	slices.SortStableFunc(groups, func(a, b *progressGroup) int {
		switch {
		case a.failed == b.failed:
			return cmp.Compare(len(a.names), len(b.names))
		case a.failed:
			return -1
		}
		return 1
	})
	for _, g := range groups {
		if g.total > 0 {
			g.text += fmt.Sprintf(" %d %%", 100*g.sent/g.total)
		}
	}
	return groups
}
