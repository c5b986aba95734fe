package process

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// deathWatch waits in Go's own poller for a process to die: no thread is held.
type deathWatch struct {
	file *os.File      // a pidfd of its own
	died chan struct{} // closed when the process is dead
	over chan struct{} // closed when the goroutine ends
}

// watchDeath returns nil where the kernel gives no pidfd for a child of ours:
// it is out of descriptors.
func watchDeath(pid int) *deathWatch { return watchDeathBy(pid, make(chan struct{})) }

func watchDeathBy(pid int, died chan struct{}) *deathWatch {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	_ = unix.SetNonblock(fd, true) // what os.NewFile takes for something to poll
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

// handOver ends the watch and has another process watched by whoever waits for this one; nil
// where nobody does, or that one is dead.
func (w *deathWatch) handOver(pid int) *deathWatch {
	if w == nil {
		return nil
	}
	w.stop()
	select {
	case <-w.died:
		return nil
	default:
		return watchDeathBy(pid, w.died)
	}
}

// stop ends the watch; died stays open unless it was closed by then.
func (w *deathWatch) stop() {
	if w == nil {
		return
	}
	_ = w.file.Close()
	<-w.over
}
