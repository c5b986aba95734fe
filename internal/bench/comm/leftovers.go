package main

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/internal/bench"
)

// claim is the file in a run's folder that the run holds locked as long as it lives; the kernel lets go of it with the process.
const claim = "alive"

// newFolder makes the run's folder in the given one and removes those of runs that are dead.
func newFolder(in string) (dir string, release func(), err error) {
	removeStale(in)
	if dir, err = os.MkdirTemp(in, "comm-bench-"); err != nil {
		return "", nil, err
	}
	unclaimed := filepath.Join(dir, "new")
	file, err := os.Create(unclaimed)
	if err == nil {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
	}
	if err == nil { // only what is locked is seen by its name
		err = os.Rename(unclaimed, filepath.Join(dir, claim))
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, err
	}
	return dir, func() {
		_ = os.RemoveAll(dir)
		file.Close()
	}, nil
}

// removeStale removes folders whose run was killed.
func removeStale(in string) {
	claims, _ := filepath.Glob(filepath.Join(in, "comm-bench-*", claim))
	for _, path := range claims {
		file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if info, err := file.Stat(); err == nil && ownedByUs(info) && unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
		file.Close()
	}
}

func ownedByUs(info os.FileInfo) bool {
	status, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(status.Uid) == os.Geteuid()
}

// custodian sees to it that nothing is left of a run, however it ends: whatever its programs start becomes this process's child when its own parent
// ends before it.
type custodian struct {
	ending sync.Mutex
	tidy   []func() // last first
}

// newCustodian waits for SIGINT, SIGTERM and SIGHUP, which end the run.
func newCustodian() *custodian {
	c := &custodian{}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		log.Printf("orphans of what is measured may be left: %v", err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		got := (<-signals).(syscall.Signal)
		c.ending.Lock() // for ever: whoever else comes to an end now waits for the exit
		log.Printf("%v: ending what runs", got)
		c.end()
		os.Exit(128 + int(got))
	}()
	return c
}

// finally has something done at the end.
func (c *custodian) finally(do func()) {
	c.ending.Lock()
	defer c.ending.Unlock()
	c.tidy = append(c.tidy, do)
}

// close is the end of a run that no signal ended.
func (c *custodian) close() {
	c.ending.Lock()
	c.end()
	c.tidy = nil
	c.ending.Unlock()
}

// end asks the launchers to end, ends what is left, and tidies up.
func (c *custodian) end() {
	const grace, last = 5 * time.Second, 2 * time.Second
	for _, pid := range bench.Children(os.Getpid()) {
		_ = unix.Kill(pid, syscall.SIGTERM)
		_ = unix.Kill(pid, syscall.SIGCONT) // a stopped one would not notice
	}
	endAll(0, grace)
	for range 5 { // what a launcher that was killed leaves becomes ours a moment later
		if !endAll(syscall.SIGKILL, last) {
			break
		}
	}
	for _, do := range slices.Backward(c.tidy) {
		do()
	}
}

// endAll sends the signal, if it is one, to all processes below this one, waits for their ends, and says whether there were any.
func endAll(signal syscall.Signal, limit time.Duration) bool {
	var waiting []unix.PollFd
	for _, pid := range bench.Descendants(os.Getpid()) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		defer unix.Close(fd)
		one := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
		if n, _ := unix.Poll([]unix.PollFd{one}, 0); n > 0 {
			continue // dead, and nobody has asked for its status yet
		}
		if signal != 0 {
			_ = unix.PidfdSendSignal(fd, signal, nil, 0)
		}
		waiting = append(waiting, one)
	}
	found := len(waiting) > 0
	for until := time.Now().Add(limit); len(waiting) > 0 && time.Now().Before(until); {
		_, _ = unix.Poll(waiting, int(time.Until(until).Milliseconds())+1)
		waiting = slices.DeleteFunc(waiting, func(p unix.PollFd) bool { return p.Revents != 0 })
	}
	return found
}

// step runs a command, whose words are in the error if it fails.
func step(argv ...string) error {
	if said, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %.300s", strings.Join(argv, " "), err, said)
	}
	return nil
}
