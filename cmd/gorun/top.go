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
	"gorun/launcher/registry"
)

func topCommand(c *call) *command {
	r := &jobsRequest{call: c, Command: "top"}
	r.act = r.top
	return r.command(cli.Command{
		Usage: "show what the ranks of a job use, second by second",
		Description: "gorun top shows what each rank of a job uses, second by second; q leaves. Where standard output is " +
			"no terminal it prints that once.",
	}, wasShown, jobIsNone,
		dialect.Example{"gorun top", "the only job there is"},
		dialect.Example{"gorun top 7f3a", "one of several"})
}

// topPeriod is how often top looks.
const topPeriod = time.Second

// top shows what the ranks of a job use: on a terminal until somebody leaves or the job
// ends, else once.
func (r *jobsRequest) top() error {
	f, err := r.one()
	if err != nil {
		return err
	}
	first := askJob(f, registry.RanksRequest)
	if first.err != nil {
		return first.err
	}
	screen, ok := newTopScreen(r.stdout)
	if !ok {
		time.Sleep(topPeriod) // what is used in it is what is shown
		second := askJob(f, registry.RanksRequest)
		if second.err != nil {
			return second.err
		}
		v := newJobView(textStyle(r.stdout))
		return r.print(append([]string{v.title(second.Job, r.short(f.ID)), ""},
			v.ranks(second.Job, between(first.Job, second.Job, nil), askGPUs(second.Job))...))
	}
	err = r.watch(f, first.Job, screen)
	screen.restore()
	if errors.Is(err, registry.ErrEnded) {
		say(r.stderr, "job "+r.short(f.ID)+" has ended")
		return nil
	}
	return err
}

// watch draws again and again. The error says why it stopped; nil: somebody left.
func (r *jobsRequest) watch(f registry.Handle, last registry.Job, screen *topScreen) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGWINCH, syscall.SIGTSTP)
	defer signal.Stop(signals)
	tick := time.NewTicker(topPeriod)
	defer tick.Stop()
	now, seen := last, silences{}
	var gpus gpuWatch
	use := between(last, now, seen.look(now))
	for {
		v := newJobView(textStyle(r.stdout))
		lines := append([]string{v.title(now, r.short(f.ID)), ""}, v.ranks(now, use, gpus.look(now))...)
		if err := screen.draw(lines); err != nil {
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
			a := askJob(f, registry.RanksRequest)
			if a.err != nil {
				return a.err
			}
			last, now = now, a.Job
			use = between(last, now, seen.look(now))
		}
	}
}

// topScreen is a terminal that is drawn upon from the top, and read key by key.
type topScreen struct {
	in, out *os.File
	before  unix.Termios // what it was
	keywise unix.Termios
	keys    chan byte
	first   int // the first line that is shown below the head
	lines   int // how many there are
}

// topHead is how many lines always stay: the title, a blank one, the names of columns.
const topHead = 3

// newTopScreen takes the terminal over, where both ends are one.
func newTopScreen(stdout io.Writer) (*topScreen, bool) {
	out, ok := stdout.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return nil, false
	}
	if _, err := unix.IoctlGetTermios(int(out.Fd()), unix.TCGETS); err != nil {
		return nil, false
	}
	s := &topScreen{in: os.Stdin, out: out, keys: make(chan byte)}
	before, err := unix.IoctlGetTermios(int(s.in.Fd()), unix.TCGETS)
	if err != nil {
		return nil, false
	}
	s.before, s.keywise = *before, *before
	s.keywise.Lflag &^= unix.ICANON | unix.ECHO
	s.keywise.Cc[unix.VMIN], s.keywise.Cc[unix.VTIME] = 1, 0
	if s.take() != nil {
		return nil, false
	}
	go s.read()
	return s, true
}

// take has the terminal give keys one by one and show another page, without a cursor and wrapped lines.
func (s *topScreen) take() error {
	if err := unix.IoctlSetTermios(int(s.in.Fd()), unix.TCSETS, &s.keywise); err != nil {
		return err
	}
	_, err := s.out.WriteString("\x1b[?1049h\x1b[?25l\x1b[?7l")
	return err
}

// suspend stops this process, as Ctrl-Z would have done, with the terminal as it was, until it is to go on.
func (s *topScreen) suspend() {
	s.restore()
	on := make(chan os.Signal, 1)
	signal.Notify(on, syscall.SIGCONT)
	defer signal.Stop(on)
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	<-on         // this thread may run on for a moment
	_ = s.take() // a terminal that is gone is noticed when it is drawn upon
}

// read passes keys on until the process ends: nothing else reads this terminal.
func (s *topScreen) read() {
	defer close(s.keys)
	key := make([]byte, 1)
	for {
		if n, err := s.in.Read(key); err != nil || n == 0 {
			return
		}
		s.keys <- key[0]
	}
}

// scroll moves by the keys of less: j and k, space and b, g and G.
func (s *topScreen) scroll(key byte) {
	page := max(s.height()-topHead-1, 1)
	s.first += map[byte]int{'j': 1, 'k': -1, ' ': page, 'b': -page, 'g': -s.first, 'G': s.lines}[key]
}

func (s *topScreen) height() int {
	if size, err := unix.IoctlGetWinsize(int(s.out.Fd()), unix.TIOCGWINSZ); err == nil && size.Row > 0 {
		return int(size.Row)
	}
	return 24
}

// draw draws all lines that fit.
func (s *topScreen) draw(lines []string) error {
	head, rows := lines[:min(len(lines), topHead)], lines[min(len(lines), topHead):]
	room := max(s.height()-topHead-1, 1)
	s.lines = len(rows)
	s.first = max(min(s.first, len(rows)-room), 0)
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range head {
		if i == topHead-1 && wantColour() {
			line = "\x1b[7m" + line + "\x1b[0m"
		}
		b.WriteString(line + "\x1b[K\r\n")
	}
	for _, line := range rows[s.first:min(s.first+room, len(rows))] {
		if strings.Contains(line, " straggler") && wantColour() {
			line = "\x1b[33m" + line + "\x1b[0m"
		}
		b.WriteString(line + "\x1b[K\r\n")
	}
	foot := "q leaves"
	if len(rows) > room {
		foot = fmt.Sprintf("q leaves, j k space b scroll: %d-%d of %d", s.first+1, min(s.first+room, len(rows)), len(rows))
	}
	b.WriteString(foot + "\x1b[K\x1b[J")
	_, err := s.out.WriteString(b.String())
	return err
}

// restore gives the terminal back as it was.
func (s *topScreen) restore() {
	_, _ = s.out.WriteString("\x1b[?7h\x1b[?25h\x1b[?1049l")
	_ = unix.IoctlSetTermios(int(s.in.Fd()), unix.TCSETS, &s.before)
}
