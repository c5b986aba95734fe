package main

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tidy sees to it that nothing is left of a run, however it ends: what its programs start becomes this process's child
// when its own parent ends before it. The function that it returns asks the launchers to end, ends what is left and
// removes the folder; so do SIGINT, SIGTERM and SIGHUP, which end the run.
func tidy(dir string) (end func()) {
	end = sync.OnceFunc(func() {
		for _, pid := range processTree(os.Getpid(), false) {
			_ = unix.Kill(pid, syscall.SIGTERM)
			_ = unix.Kill(pid, syscall.SIGCONT) // a stopped one would not notice
		}
		for wait := 0; wait < 500; wait++ {
			left := processTree(os.Getpid(), true)
			if len(left) == 0 {
				break
			}
			for _, pid := range left {
				if wait > 250 { // what a launcher that was killed leaves becomes ours a moment later
					_ = unix.Kill(pid, syscall.SIGKILL)
				}
			}
			<-time.After(20 * time.Millisecond)
		}
		_ = os.RemoveAll(dir)
	})
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		log.Printf("orphans of what is measured may be left: %v", err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		got := (<-signals).(syscall.Signal)
		log.Printf("%v: ending what runs", got)
		end()
		os.Exit(128 + int(got))
	}()
	return end
}

// processTree returns the children of a process, or all processes below it.
func processTree(pid int, deep bool) (all []int) {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, _ := os.ReadFile(path)
		var child, parent int
		var state string
		// "pid (name) state parent ...", where the name may hold anything
		_, _ = fmt.Sscan(string(text), &child)
		_, _ = fmt.Sscan(string(text[strings.LastIndexByte(string(text), ')')+1:]), &state, &parent)
		if state != "Z" { // the dead wait for somebody to ask for their status
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
