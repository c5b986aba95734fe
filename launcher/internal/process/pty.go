package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// connectPTY makes r's pseudo-terminal and returns the slave, which is the rank's. The master is read like a pipe as
// stream 1, and written as r's stdin.
func (s *spawner) connectPTY(r *rank, ends *childEnds) (int32, error) {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	if r.end[stdout], err = aboveStandard(master); err != nil {
		return -1, err
	}
	slave, err := openSlave(r.end[stdout])
	if err != nil {
		return -1, err
	}
	ends.add(slave)
	if w := s.g.window.Load(); w != nil {
		_ = unix.IoctlSetWinsize(int(r.end[stdout]), unix.TIOCSWINSZ, w)
	}
	if r.Stdin.Kind == PTY {
		write, err := duplicate(int(r.end[stdout]))
		if err != nil {
			return -1, err
		}
		r.input.Store(newInput(write, true))
	}
	return slave, nil
}

// openSlave opens the slave through its master: a path in /dev/pts may name another terminal in a container.
func openSlave(master int32) (int32, error) {
	if err := unix.IoctlSetPointerInt(int(master), unix.TIOCSPTLCK, 0); err != nil {
		return -1, fmt.Errorf("unlock pseudo-terminal: %w", err)
	}
	fd, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if e != 0 {
		return -1, fmt.Errorf("open pseudo-terminal: %w", e)
	}
	return aboveStandard(int(fd))
}

// ResizePTYs sets the size, in characters, of all ranks' pseudo-terminals, including those of later ranks. Their
// foreground programs get SIGWINCH.
func (g *Group) ResizePTYs(rows, cols int) {
	g.window.Store(&unix.Winsize{Row: uint16(rows), Col: uint16(cols)})
	g.postAll(func(s *spawner) {
		for r := range s.unreaped() {
			if r.hasPTY() && r.end[stdout] >= 0 {
				_ = unix.IoctlSetWinsize(int(r.end[stdout]), unix.TIOCSWINSZ, g.window.Load())
			}
		}
	})
}

func (r *rank) hasPTY() bool {
	return r.Stdin.Kind == PTY || r.Stdout.Kind == PTY || r.Stderr.Kind == PTY
}

// endOfFile returns the terminal's VEOF characters: none in raw mode, where the program defines its own end; two in the
// middle of a line, as the first only flushes the line so far.
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
