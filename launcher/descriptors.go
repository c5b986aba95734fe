package launcher

import (
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(w any) bool {
	f := asFile(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// foreground reports whether this process may read from a terminal. A job started with `&` must
// not.
func foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// newStdio decides what the ranks' standard streams are.
func (h *head) newStdio(p *job.Plan) wire.Stdio {
	request, out, numRanks := h.spec.Stdin, h.spec.Output, len(p.Ranks)
	isLocal := func(rank int) bool { return h.nodes[p.Ranks[rank].Node].served != nil }
	io := wire.Stdio{Direct: -1, PTY: out.PTY, Forward: out.LogsToHead && p.Logs != nil}
	if out.PTY {
		io.Cols, io.Rows = terminalSize(h.settings.Stdout)
	}
	in := h.settings.Stdin
	switch {
	case in == nil || request.Kind == job.StdinNone:
	case numRanks == 1 && isLocal(0) && h.passesTerminal():
		io.Terminal = true
	case request.Kind == job.StdinAll:
		for rank := range numRanks {
			io.Piped = append(io.Piped, rank)
		}
	case request.Kind == job.StdinSome:
		io.Piped = request.Ranks
	case out.PTY, !isLocal(request.Rank), isTerminal(in) && (numRanks > 1 || !foreground(in)):
		io.Piped = []int{request.Rank}
	default:
		io.Direct = request.Rank
	}
	return io
}

// passesTerminal reports whether a single rank gets the terminal itself: gorun must not have to
// process its output.
func (c *call) passesTerminal() bool {
	o := c.spec.Output
	return isTerminal(c.settings.Stdin) && isTerminal(c.settings.Stdout) && isTerminal(c.settings.Stderr) &&
		foreground(c.settings.Stdin) && !o.PTY && c.spec.HangTimeout == 0 && o.Label != job.LabelAlways && o.LogDir == "" &&
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

// resize forwards the terminal's size to the console and to pseudo-terminals.
func (h *head) resize() {
	cols, rows := terminalSize(h.settings.Stdout)
	h.console.Resize(cols)
	if h.stdio.PTY {
		h.broadcast(&wire.Resize{Rows: rows, Cols: cols})
	}
}
