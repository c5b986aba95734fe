package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/launcher/registry"
)

func topCommand(c *commandLine) *command {
	r := &jobsRequest{commandLine: c, command: "top"}
	r.act = r.top
	return r.define(cli.Command{
		Usage: "show the CPU time and output of each rank, second by second",
		Description: "gorun top shows what each rank of a job uses, second by second; q quits. If standard output is not " +
			"a terminal, it prints one table.",
	}, shownText, noJobText,
		dialect.Example{"gorun top", "the only running job"},
		dialect.Example{"gorun top 7f3a", "one of several jobs"})
}

const topInterval = time.Second

// top shows the usage of a job's ranks until the user leaves or the job ends, or once if this is no terminal.
func (r *jobsRequest) top() error {
	h, err := r.theJob()
	if err != nil {
		return err
	}
	first := queryJob(h, registry.RanksRequest)
	if first.err != nil {
		return first.err
	}
	screen, ok := newTopScreen(r.stdout)
	if !ok {
		time.Sleep(topInterval) // usage needs two observations
		second := queryJob(h, registry.RanksRequest)
		if second.err != nil {
			return second.err
		}
		return r.printLines(r.rankLines(second.Job, usageBetween(first.Job, second.Job, nil), queryGPUs(second.Job)))
	}
	err = r.watch(h, first.Job, screen)
	screen.restore()
	if errors.Is(err, registry.ErrEnded) {
		r.notify("job " + r.shortID(h.ID) + " has ended")
		return nil
	}
	return err
}

// watch redraws the screen until the user leaves, or an error.
func (r *jobsRequest) watch(h registry.Handle, now registry.Job, screen *topScreen) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH,
		syscall.SIGTSTP)
	defer signal.Stop(signals)
	tick := time.NewTicker(topInterval)
	defer tick.Stop()
	var clock outputClock
	var gpus gpuMonitor
	usage := usageBetween(now, now, clock.observe(now))
	for {
		if err := screen.draw(r.rankLines(now, usage, gpus.latest(now))); err != nil {
			return err
		}
		select {
		case sig := <-signals:
			switch sig {
			case syscall.SIGTSTP:
				screen.suspend()
			case syscall.SIGWINCH:
			default:
				return nil
			}
		case key, open := <-screen.keys:
			if !open || key == 'q' || key == 'Q' || key == 3 { // Ctrl-C
				return nil
			}
			screen.scroll(key)
		case <-tick.C:
			reply := queryJob(h, registry.RanksRequest)
			if reply.err != nil {
				return reply.err
			}
			usage = usageBetween(now, reply.Job, clock.observe(reply.Job))
			now = reply.Job
		}
	}
}

// topScreen is a terminal on which top draws from the first line on, and of which it reads single keys.
type topScreen struct {
	in, out *os.File
	saved   unix.Termios
	raw     unix.Termios
	keys    chan byte
	first   int // index of the first line below the heading
	lines   int // below the heading
}

// topHeading is the number of lines that do not scroll: a title, a blank line, the names of columns.
const topHeading = 3

// newTopScreen sets up the terminal. It returns false if standard input or output is not one.
func newTopScreen(stdout io.Writer) (*topScreen, bool) {
	out, ok := stdout.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return nil, false
	}
	if _, err := unix.IoctlGetTermios(int(out.Fd()), unix.TCGETS); err != nil {
		return nil, false
	}
	s := &topScreen{in: os.Stdin, out: out, keys: make(chan byte)}
	saved, err := unix.IoctlGetTermios(int(s.in.Fd()), unix.TCGETS)
	if err != nil {
		return nil, false
	}
	s.saved, s.raw = *saved, *saved
	s.raw.Lflag &^= unix.ICANON | unix.ECHO
	s.raw.Cc[unix.VMIN], s.raw.Cc[unix.VTIME] = 1, 0
	if s.setUp() != nil {
		return nil, false
	}
	go s.readKeys()
	return s, true
}

// setUp switches to single keys and the alternate screen, without cursor and line wrapping.
func (s *topScreen) setUp() error {
	if err := unix.IoctlSetTermios(int(s.in.Fd()), unix.TCSETS, &s.raw); err != nil {
		return err
	}
	_, err := s.out.WriteString("\x1b[?1049h\x1b[?25l\x1b[?7l")
	return err
}

func (s *topScreen) restore() {
	_, _ = s.out.WriteString("\x1b[?7h\x1b[?25h\x1b[?1049l")
	_ = unix.IoctlSetTermios(int(s.in.Fd()), unix.TCSETS, &s.saved)
}

// suspend stops this process, as Ctrl-Z would have done, with the terminal restored, until SIGCONT.
func (s *topScreen) suspend() {
	s.restore()
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, syscall.SIGCONT)
	defer signal.Stop(resumed)
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	<-resumed     // this thread may run on for a moment
	_ = s.setUp() // draw reports a terminal that has gone
}

// readKeys runs until the process ends: nothing else reads this terminal.
func (s *topScreen) readKeys() {
	defer close(s.keys)
	key := make([]byte, 1)
	for {
		if n, err := s.in.Read(key); err != nil || n == 0 {
			return
		}
		s.keys <- key[0]
	}
}

// scroll has the keys of less: j and k, space and b, g and G.
func (s *topScreen) scroll(key byte) {
	page := s.page()
	s.first += map[byte]int{'j': 1, 'k': -1, ' ': page, 'b': -page, 'g': -s.first, 'G': s.lines}[key]
}

// page is the number of lines between the heading and the last line.
func (s *topScreen) page() int {
	height := 24
	if size, err := unix.IoctlGetWinsize(int(s.out.Fd()), unix.TIOCGWINSZ); err == nil && size.Row > 0 {
		height = int(size.Row)
	}
	return max(height-topHeading-1, 1)
}

func (s *topScreen) draw(lines []string) error {
	heading, rows := lines[:min(len(lines), topHeading)], lines[min(len(lines), topHeading):]
	page := s.page()
	s.lines = len(rows)
	s.first = max(min(s.first, len(rows)-page), 0)
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range heading {
		if i == topHeading-1 && show.Colour(s.out) {
			line = "\x1b[7m" + line + "\x1b[0m"
		}
		b.WriteString(line + "\x1b[K\r\n")
	}
	for _, line := range rows[s.first:min(s.first+page, len(rows))] {
		if strings.Contains(line, " straggler") && show.Colour(s.out) {
			line = "\x1b[33m" + line + "\x1b[0m"
		}
		b.WriteString(line + "\x1b[K\r\n")
	}
	foot := "q leaves"
	if len(rows) > page {
		foot = fmt.Sprintf("q leaves, j k space b scroll: %d-%d of %d", s.first+1, min(s.first+page, len(rows)), len(rows))
	}
	b.WriteString(foot + "\x1b[K\x1b[J")
	_, err := s.out.WriteString(b.String())
	return err
}
