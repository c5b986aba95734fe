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
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/launcher"
	"gorun/launcher/hosts"
)

const (
	// barAfter is how long reaching hosts may take before anything is drawn.
	barAfter = 300 * time.Millisecond
	barEvery = 100 * time.Millisecond
	// lineEvery is how often -v says who is still waited for.
	lineEvery = 10 * time.Second
	eraseLine = "\r\x1b[K"
)

// progressScreen shows on standard error how far the hosts of a job are: as one line
// that is redrawn and vanishes in the end, and with -v as lines that stay.
type progressScreen struct {
	out     *os.File
	bar     bool // it is a terminal that can be drawn on
	verbose bool
	style   barStyle

	mu       sync.Mutex
	progress *launcher.Progress // nil: no hosts are being reached
	paused   int                // somebody is being asked
	drawn    bool
	said     time.Duration // when a line was said
}

func newProgressScreen(inv dialect.Invocation, out *os.File, getenv func(string) string) *progressScreen {
	return &progressScreen{
		out: out, bar: !inv.Quiet && getenv("TERM") != "dumb" && term.IsTerminal(int(out.Fd())),
		verbose: inv.Verbose > 0 && !inv.Quiet,
		style:   barStyle{ascii: !hasUTF8(getenv), colour: wantColour()},
	}
}

// begin is for launcher.WithProgress.
func (s *progressScreen) begin(p *launcher.Progress) (end func()) {
	if !s.bar && !s.verbose {
		return func() {}
	}
	s.mu.Lock()
	s.progress = p
	s.mu.Unlock()
	over, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		s.run(over)
	}()
	return func() {
		close(over)
		<-gone
		s.end(p)
	}
}

func (s *progressScreen) run(over <-chan struct{}) {
	late := time.NewTimer(barAfter)
	defer late.Stop()
	select {
	case <-over:
		return
	case <-late.C:
	}
	ended := make(chan os.Signal, 1)
	if s.bar {
		s.hearEnd(ended)
		defer signal.Stop(ended)
	}
	tick := time.NewTicker(barEvery)
	defer tick.Stop()
	for {
		s.draw()
		select {
		case <-over:
			return
		case sig := <-ended:
			s.erase()
			signal.Stop(ended)
			endBy(sig)
			return
		case <-tick.C:
		}
	}
}

// endBy ends this process as a signal does that it has taken.
func endBy(sig os.Signal) {
	signal.Reset(sig)
	_ = unix.Kill(unix.Getpid(), sig.(syscall.Signal))
}

// hearEnd has signals that end this process come here first, so that no half line is
// left on the screen. Ignored ones stay so.
func (s *progressScreen) hearEnd(ch chan<- os.Signal) {
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) {
			signal.Notify(ch, sig)
		}
	}
}

// draw draws the line again, and says one with -v from time to time.
func (s *progressScreen) draw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused > 0 || s.progress == nil {
		return
	}
	elapsed, list := s.progress.Elapsed(), s.progress.Hosts()
	if s.verbose && elapsed-s.said >= lineEvery {
		s.said = elapsed
		s.write(fmt.Sprintf("gorun: %s; %s\n", standing(list, elapsed), strings.Join(waitingWords(list), " · ")))
	}
	if s.bar {
		s.drawn = true
		_, _ = s.out.WriteString("\r" + s.style.line(list, elapsed, cmp.Or(columnsOf(s.out), usualWidth)) + "\x1b[K")
	}
}

// write writes a line where the bar is.
func (s *progressScreen) write(text string) {
	if s.drawn {
		text = eraseLine + text
	}
	_, _ = s.out.WriteString(text) // nowhere to complain about a lost complaint
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
	s.write("gorun: " + standing(list, p.Elapsed()) + "\n")
	var copied []string
	for _, h := range list {
		if h.Ready && h.Sent > 0 {
			copied = append(copied, h.Name)
		}
	}
	if len(copied) > 0 {
		s.write("gorun: copied itself to " + hosts.Fold(copied) + "\n")
	}
}

// pause leaves the terminal to somebody else until resume is called.
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

// around has notices replace the line that is drawn; it is drawn again below them.
func (s *progressScreen) around(notice func(launcher.Notice) string) func(launcher.Notice) string {
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

// standing is how many hosts are reached.
func standing(list []launcher.HostProgress, elapsed time.Duration) string {
	ready := 0
	for _, h := range list {
		if h.Ready {
			ready++
		}
	}
	return fmt.Sprintf("%d of %d hosts reached after %s", ready, len(list), seconds(elapsed))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// usualWidth is that of a terminal that does not say how many columns it has.
const usualWidth = 80

// barStyle is how the line is drawn.
type barStyle struct{ ascii, colour bool }

const barCells = 24

// line is the line, narrower than the terminal: one that wraps cannot be drawn again.
func (s barStyle) line(list []launcher.HostProgress, elapsed time.Duration, width int) string {
	ready, done := 0, 0.0
	for _, h := range list {
		if h.Ready {
			ready++
		}
		done += part(h)
	}
	full := int(math.Floor(done / float64(max(len(list), 1)) * barCells))
	tail := fmt.Sprintf(" %d/%d hosts  %s", ready, len(list), seconds(elapsed))
	if words := waitingWords(list); len(words) > 0 {
		separator := " · "
		if s.ascii {
			separator = ", "
		}
		tail += "   " + strings.Join(words, separator)
	}
	const title = "Reaching "
	if room := width - 1 - len(title) - barCells; room < 16 { // no room for a bar
		return s.cut(title+strings.TrimSpace(tail), width-1)
	} else {
		return title + s.cells(full) + s.cut(tail, room)
	}
}

// cells is the bar.
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

// cut shortens a text to so many characters.
func (s barStyle) cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	mark := "…"
	if s.ascii {
		mark = "~"
	}
	runes := []rune(text)
	return string(runes[:max(width-1, 0)]) + mark
}

// part is how much of the way a host has behind it, from 0 to 1.
func part(h launcher.HostProgress) float64 {
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

// waitingWords say which hosts are waited for at which step, the fewest first, and
// which have failed.
func waitingWords(list []launcher.HostProgress) (words []string) {
	groups := groupsOf(list)
	waiting := false
	for _, g := range groups {
		text := hosts.Fold(g.names) + " " + g.text
		if !g.failed && !waiting {
			waiting, text = true, "waiting: "+text
		}
		words = append(words, text)
	}
	return words
}

// progressGroup is hosts at the same step.
type progressGroup struct {
	names       []string
	text        string
	failed      bool
	sent, total int64
}

// stepWords say what is going on at a step, where its own name does not.
var stepWords = map[string]string{
	"waiting": "not begun", "configuration": "reading ~/.ssh/config", "resolve": "looking up", "connect": "connecting",
	"copy": "copying gorun", "start": "starting gorun",
}

// groupsOf are the hosts that are not ready: those that failed, then the fewest first,
// which are the ones to look at where the line is too short for all.
func groupsOf(list []launcher.HostProgress) []*progressGroup {
	var groups []*progressGroup
	for _, h := range list {
		if h.Ready {
			continue
		}
		text := stepWords[h.Step]
		if text == "" {
			text = h.Step
		}
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
		if a.failed != b.failed {
			if a.failed {
				return -1
			}
			return 1
		}
		return cmp.Compare(len(a.names), len(b.names))
	})
	for _, g := range groups {
		if g.total > 0 {
			g.text += fmt.Sprintf(" %d %%", 100*g.sent/g.total)
		}
	}
	return groups
}
