package process

import (
	"runtime"
	"sync"
)

// tightTasks is how many more processes and threads a limit has to allow for
// ranks not to be expected to use them up.
const tightTasks = 10_000

// reservedThreads is how many threads the launcher keeps for itself where the
// limit is tight: spawners, those that write files or wait in the kernel, those
// that Go code runs on, and a quarter of the CPUs for the garbage collector.
func reservedThreads() int { return maxThreads + 6 + runtime.NumCPU()/4 }

// ReserveThreads makes threads that the launcher may need later, if a limit of
// processes holds for it that ranks may use up: the Go runtime ends the whole
// program when it wants a thread and can have none. So many ranks and a guard will
// have room as well.
func ReserveThreads(ranks int) {
	if left, limited := tasksLeft(); limited {
		makeThreads(min(reservedThreads(), left-ranks-2))
	}
}

// TasksAreLimited reports whether a limit of processes holds for this process
// that ranks may use up.
func TasksAreLimited() bool {
	_, limited := tasksLeft()
	return limited
}

// tasksLeft is what the tightest limit leaves, if there is one that is tight.
func tasksLeft() (left int, limited bool) {
	for _, l := range taskLimits(tightTasks) {
		return l.left(), l.left() < tightTasks
	}
	return 0, false
}

// makeThreads leaves n idle threads, which the runtime never gives up: each
// goroutine occupies one until there are all of them.
func makeThreads(n int) {
	if n <= 0 {
		return
	}
	var there sync.WaitGroup
	there.Add(n)
	leave := make(chan struct{})
	for range n {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			there.Done()
			<-leave
		}()
	}
	there.Wait()
	close(leave)
}
