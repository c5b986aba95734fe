package faults

import (
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// occupy makes threads that Go keeps, because Go needs spare threads once no more processes are available.
func occupy(number int) {
	var there, free sync.WaitGroup
	there.Add(number)
	leave := make(chan struct{})
	for range number {
		free.Go(func() {
			runtime.LockOSThread()
			there.Done()
			<-leave
			runtime.UnlockOSThread() // until this call, other goroutines cannot use the thread
		})
	}
	there.Wait()
	close(leave)
	free.Wait()
}

// bombRole uses up all available processes and says hello. It then takes each process that becomes free, until the
// test ends.
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

// forkAll forks until the kernel refuses more processes.
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
