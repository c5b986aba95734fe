package process

import (
	"runtime"
	"sync"
)

// If a limit leaves fewer tasks (processes and threads) than these, ranks may use up all of them: while they start, or
// later.
const (
	scarceTasks = 1_000
	tightTasks  = 10_000
)

// reservedThreads is the number of threads that the launcher reserves under a tight limit: spawners, threads that block
// in system calls or run Go code, and a quarter of the CPUs for the garbage collector.
func reservedThreads() int { return maxThreads + 6 + runtime.NumCPU()/4 }

// ReserveThreads creates the threads that the launcher may need later, if ranks could exhaust a limit of processes: the
// Go runtime aborts the program if it cannot create a thread. It reports whether there is such a limit.
func ReserveThreads() bool {
	left, limited := tasksLeft()
	if limited {
		reserveThreads(left)
	}
	return limited
}

var reserved sync.Once

// reserveThreads runs once, and leaves tasks for the guard.
func reserveThreads(left int) {
	reserved.Do(func() { makeThreads(min(reservedThreads(), left-2)) })
}

// tasksLeft returns what the tightest limit leaves, if that is below tightTasks.
func tasksLeft() (left int, limited bool) {
	limits := taskLimits(tightTasks) // the tightest is first
	if len(limits) == 0 {
		return 0, false
	}
	return limits[0].left(), limits[0].left() < tightTasks
}

// makeThreads creates n idle threads, which the runtime keeps: n goroutines occupy a thread each until all exist.
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
			runtime.UnlockOSThread() // else the thread would end with the goroutine
		})
	}
	there.Wait()
	close(leave)
	free.Wait()
}

var never bool

// ReserveStack grows the stack of a goroutine that will need several KiB, once while it is almost empty. Go would copy
// it whenever it doubles.
//
//go:noinline
func ReserveStack() {
	if never {
		var room [12 << 10]byte
		runtime.KeepAlive(&room)
	}
}
