package process

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// deathWatch waits in the runtime's poller for a process to die, without a thread.
type deathWatch struct {
	file *os.File      // its own pidfd
	died chan struct{} // closed when the process is dead
	over chan struct{} // closed when the goroutine ends
}

// watchDeath closes died when a process dies. It returns nil if no descriptor is left for a pidfd.
func watchDeath(pid int, died chan struct{}) *deathWatch {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	_ = unix.SetNonblock(fd, true) // makes os.NewFile register it with the poller
	w := &deathWatch{file: os.NewFile(uintptr(fd), "pidfd"), died: died, over: make(chan struct{})}
	go w.wait()
	return w
}

func (w *deathWatch) wait() {
	defer close(w.over)
	raw, err := w.file.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool { return awaitExit(int(fd), time.Now()) })
	}
	if err == nil {
		close(w.died)
	}
}

// handOver replaces the watch by one for another process with the same channel. It returns nil if there is no watch, or
// the first process is dead.
func (w *deathWatch) handOver(pid int) *deathWatch {
	if w == nil {
		return nil
	}
	w.stop()
	select {
	case <-w.died:
		return nil
	default:
		return watchDeath(pid, w.died)
	}
}

// stop ends the watch; died stays open unless the process is dead already. w may be nil.
func (w *deathWatch) stop() {
	if w == nil {
		return
	}
	_ = w.file.Close()
	<-w.over
}
