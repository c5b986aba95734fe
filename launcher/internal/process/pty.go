package process

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// connectPTY makes r's pseudo-terminal and returns the rank's side of it. Ours,
// the master, is read like a pipe as stream 1 and written as r's stdin.
func (s *spawner) connectPTY(r *rank, theirs *childEnds) (int32, error) {
	master, err := syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	if r.end[stdout], err = aboveStandard(int32(master)); err != nil {
		return -1, err
	}
	slave, err := openSlave(r.end[stdout])
	if err != nil {
		return -1, err
	}
	theirs.add(slave)
	if w := s.g.window.Load(); w != nil {
		setWindow(r.end[stdout], w)
	}
	if r.Stdin.Kind == PTY {
		write, err := duplicate(r.end[stdout])
		if err != nil {
			return -1, err
		}
		r.input.Store(newInput(write, true))
	}
	return slave, nil
}

// openSlave opens the rank's side by its master and not by a name under
// /dev/pts, which in a container may be another's.
func openSlave(master int32) (int32, error) {
	if err := unix.IoctlSetPointerInt(int(master), unix.TIOCSPTLCK, 0); err != nil {
		return -1, fmt.Errorf("unlock pseudo-terminal: %w", err)
	}
	fd, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER,
		syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC)
	if e != 0 {
		return -1, fmt.Errorf("open pseudo-terminal: %w", e)
	}
	return aboveStandard(int32(fd))
}

func setWindow(master int32, w *unix.Winsize) {
	syscall.RawSyscall(syscall.SYS_IOCTL, uintptr(master), unix.TIOCSWINSZ, uintptr(unsafe.Pointer(w)))
}

// ResizePTYs gives the pseudo-terminals of all ranks, those to come as well, a
// size in characters. Their foreground programs get SIGWINCH.
func (g *Group) ResizePTYs(rows, cols int) {
	g.window.Store(&unix.Winsize{Row: uint16(rows), Col: uint16(cols)})
	g.postAll((*spawner).resize)
}

// resize gives the terminals of this spawner's ranks the group's window size.
func (s *spawner) resize() {
	w := s.g.window.Load()
	for _, r := range s.kept() {
		if r.hasPTY() && r.end[stdout] >= 0 {
			setWindow(r.end[stdout], w)
		}
	}
}

func (r *rank) hasPTY() bool {
	return r.Stdin.Kind == PTY || r.Stdout.Kind == PTY || r.Stderr.Kind == PTY
}

// endOfFile returns the terminal's characters for end-of-file: none if lines are
// not edited there, as a program that took the raw terminal has its own way; two
// in the middle of a line, as the first only sends the line's part so far.
func (in *input) endOfFile(midLine bool) (chars []byte) {
	raw, err := in.file.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) {
		t, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		if err != nil || t.Lflag&unix.ICANON == 0 {
			return
		}
		chars = append(chars, t.Cc[unix.VEOF])
		if midLine {
			chars = append(chars, t.Cc[unix.VEOF])
		}
	})
	return chars
}
