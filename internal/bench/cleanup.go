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

// cleanUpAtExit makes this process the reaper of orphans. The function that it returns terminates the launchers,
// kills all descendants that are left, and removes the directory. SIGINT, SIGTERM and SIGHUP do that, too, and end
// this process.
func cleanUpAtExit(dir string) (cleanUp func()) {
	cleanUp = sync.OnceFunc(func() {
		for _, pid := range processTree()[os.Getpid()] {
			_ = unix.Kill(pid, syscall.SIGTERM)
			_ = unix.Kill(pid, syscall.SIGCONT) // or a stopped one would not notice
		}
		for wait := 0; wait < 500; wait++ {
			left := descendants(os.Getpid())
			if len(left) == 0 {
				break
			}
			for _, pid := range left {
				if wait > 250 { // a killed launcher's children become ours a moment later
					_ = unix.Kill(pid, syscall.SIGKILL)
				}
			}
			<-time.After(20 * time.Millisecond)
		}
		_ = os.RemoveAll(dir)
	})
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		log.Printf("processes may be left: %v", err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		got := (<-signals).(syscall.Signal)
		log.Printf("%v: stopping all processes", got)
		cleanUp()
		os.Exit(128 + int(got))
	}()
	return cleanUp
}

// processTree returns the children of all processes.
func processTree() map[int][]int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, _ := os.ReadFile(path)
		var child, parent int
		var state string
		// "pid (name) state parent ...", where the name may have any characters
		_, _ = fmt.Sscan(string(text), &child)
		_, _ = fmt.Sscan(string(text[strings.LastIndexByte(string(text), ')')+1:]), &state, &parent)
		if state != "Z" {
			children[parent] = append(children[parent], child)
		}
	}
	return children
}

// descendants returns all processes below pid.
func descendants(pid int) (all []int) {
	children := processTree()
	for queue := children[pid]; len(queue) > 0; queue = queue[1:] {
		all = append(all, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return all
}
