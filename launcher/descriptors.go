package launcher

import (
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// isTerminal reports whether a writer or reader is a terminal.
func isTerminal(w any) bool {
	f := asFile(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// foreground reports whether this process may read from a terminal: as one of
// its foreground group. A job started with `&` must leave its input alone.
func foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// stdio decides what the ranks' standard streams are.
func (s *session) stdio(numRanks int) wire.Stdio {
	wish, out := s.spec.Stdin, s.spec.Output
	io := wire.Stdio{Direct: -1, PTY: out.PTY, Forward: out.LogsToHead && s.plan.Logs != nil}
	if out.PTY {
		io.Cols, io.Rows = terminalSize(s.settings.stdout)
	}
	in := s.settings.stdin
	switch {
	case in == nil || wish.Kind == job.StdinNone:
	case numRanks == 1 && s.isHere(0) && s.passesTerminal():
		io.Terminal = true
	case wish.Kind == job.StdinAll:
		for rank := range numRanks {
			io.Piped = append(io.Piped, rank)
		}
	case wish.Kind == job.StdinSome:
		io.Piped = wish.Ranks
	case out.PTY, !s.isHere(wish.Rank), isTerminal(in) && (numRanks > 1 || !foreground(in)):
		io.Piped = []int{wish.Rank}
	default:
		io.Direct = wish.Rank
	}
	return io
}

// isHere reports whether a rank runs on this host, where it can have descriptors of
// this process.
func (s *session) isHere(rank int) bool { return s.active[s.plan.Ranks[rank].Node].served != nil }

// wholeTerminal: one rank on a terminal gets the terminal itself, unless
// something was asked for that needs its output to pass through here.
func (s *session) passesTerminal() bool {
	o := s.spec.Output
	return isTerminal(s.settings.stdin) && isTerminal(s.settings.stdout) && isTerminal(s.settings.stderr) &&
		foreground(s.settings.stdin) && !o.PTY && s.spec.HangTimeout == 0 && o.Label != job.LabelAlways && o.LogDir == "" &&
		!o.Tee.Any() && !o.Redirect.Any() && o.ShowLocalRanks == nil && !o.Merge
}

func terminalSize(w any) (cols, rows int) {
	if f := asFile(w); f != nil {
		if cols, rows, err := term.GetSize(int(f.Fd())); err == nil {
			return cols, rows
		}
	}
	return 80, 24
}

// resize tells the console, and ranks with a pseudo-terminal, the new size of
// ours.
func (h *head) resize() {
	cols, rows := terminalSize(h.settings.stdout)
	h.console.Resize(cols)
	if h.stdio.PTY {
		h.broadcast(&wire.Resize{Rows: rows, Cols: cols})
	}
}
