package main

import (
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tidy sees to it that nothing is left of a run, however it ends: what its programs start becomes this process's child
// when its own parent ends before it.
type tidy struct {
	mu sync.Mutex
	do []func() // last first
}

// newTidy waits for SIGINT, SIGTERM and SIGHUP, which end the run.
func newTidy() *tidy {
	t := &tidy{}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		log.Printf("orphans of what is measured may be left: %v", err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		got := (<-signals).(syscall.Signal)
		log.Printf("%v: ending what runs", got)
		t.end()
		os.Exit(128 + int(got))
	}()
	return t
}

func (t *tidy) finally(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.do = append(t.do, do)
}

// end asks the launchers to end, ends what is left, and removes files. It runs once.
func (t *tidy) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, pid := range processTree(os.Getpid(), false) {
		_ = unix.Kill(pid, syscall.SIGTERM)
		_ = unix.Kill(pid, syscall.SIGCONT) // a stopped one would not notice
	}
	for wait := 0; wait < 500 && len(processTree(os.Getpid(), true)) > 0; wait++ {
		if wait > 250 { // what a launcher that was killed leaves becomes ours a moment later
			for _, pid := range processTree(os.Getpid(), true) {
				_ = unix.Kill(pid, syscall.SIGKILL)
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	for _, do := range slices.Backward(t.do) {
		do()
	}
	t.do = nil
}

// processTree returns the children of a process, or all processes below it.
func processTree(pid int, deep bool) (all []int) {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, _ := os.ReadFile(path)
		// "pid (name) state parent ...", where the name may hold anything
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && len(fields) > 1 && fields[0] != "Z" { // the dead wait for somebody to ask for their status
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], child)
		}
	}
	for queue := children[pid]; len(queue) > 0; queue = queue[1:] {
		all = append(all, queue[0])
		if deep {
			queue = append(queue, children[queue[0]]...)
		}
	}
	return all
}
