package process

import (
	"runtime"
	"sync"
)

// Of so few more processes and threads that a limit allows, ranks may use up all:
// before anything is started, or in a while.
const (
	scarceTasks = 1_000
	tightTasks  = 10_000
)

// reservedThreads is how many threads the launcher keeps for itself where the
// limit is tight: spawners, those that write files or wait in the kernel, those
// that Go code runs on, and a quarter of the CPUs for the garbage collector.
func reservedThreads() int { return maxThreads + 6 + runtime.NumCPU()/4 }

// ReserveThreads makes threads that the launcher may need later, if a limit of
// processes holds for it that ranks may use up: the Go runtime ends the whole
// program when it wants a thread and can have none. It reports whether there is
// such a limit.
func ReserveThreads() bool {
	left, limited := tasksLeft()
	if limited {
		reserveThreads(left)
	}
	return limited
}

var reserved sync.Once

// reserveThreads makes them once. A guard needs a task as well.
func reserveThreads(left int) {
	reserved.Do(func() { makeThreads(min(reservedThreads(), left-2)) })
}

// tasksLeft is what the tightest limit leaves, if there is one that is tight.
func tasksLeft() (left int, limited bool) {
	limits := taskLimits(tightTasks) // the tightest is first
	if len(limits) == 0 {
		return 0, false
	}
	return limits[0].left(), limits[0].left() < tightTasks
}

// makeThreads leaves n idle threads, which the runtime never gives up: each
// goroutine occupies one until there are all of them.
func makeThreads(n int) {
	if n <= 0 {
		return
	}
	var there, free sync.WaitGroup
	there.Add(n)
	leave := make(chan struct{})
	for range n {
		free.Go(func() {
			runtime.LockOSThread()
			there.Done()
			<-leave
			runtime.UnlockOSThread() // only then it is idle
		})
	}
	there.Wait()
	close(leave)
	free.Wait()
}
