package faults

import (
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// occupy makes threads that Go keeps, since it cannot live without one when all processes are taken.
func occupy(number int) {
	var there, free sync.WaitGroup
	there.Add(number)
	leave := make(chan struct{})
	for range number {
		free.Go(func() {
			runtime.LockOSThread()
			there.Done()
			<-leave
			runtime.UnlockOSThread() // only then it is a thread for others
		})
	}
	there.Wait()
	close(leave)
	free.Wait()
}

// bombRole takes all processes that there can be, says hello, and takes those that come free, for as long as the test
// lives.
func bombRole([]string) int {
	occupy(16)
	forkAll()
	if _, err := hello("child"); err != nil {
		return 98
	}
	for end := time.Now().Add(lifetime); time.Now().Before(end) && alive(); {
		for range 1000 {
			forkAll()
		}
	}
	return 70
}

// forkAll forks until there can be no more processes.
func forkAll() {
	for forkSleeper() {
	}
}

// forkSleeper makes a process that does nothing, with all signals blocked. It ends by itself after lifetime.
//
//go:norace
//go:nosplit
//go:noinline
func forkSleeper() bool {
	blocked, before := ^uint64(0), uint64(0)
	pause := unix.Timespec{Sec: int64(lifetime / time.Second)}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&blocked)),
		uintptr(unsafe.Pointer(&before)), 8, 0, 0)
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if pid == 0 && errno == 0 {
		syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&pause)), 0, 0, 0)
		for {
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&before)), 0, 8, 0, 0)
	return errno == 0
}
