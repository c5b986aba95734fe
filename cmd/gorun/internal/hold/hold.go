// Package hold keeps signals that arrive before this process listens to them.
//
// signal.Notify takes a tenth of a millisecond and several thread switches, which a job that ends within three
// milliseconds cannot spare before its ranks run. But once the first rank runs, a signal is meant for the job. Until
// then, this package replaces the handlers of Go's runtime, which would end the process, by one that records the
// signal's number. That costs two system calls for each signal, a fraction of a microsecond.
package hold

import (
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// action is the kernel's struct sigaction, see rt_sigaction(2), the same for amd64 and arm64.
type action struct{ handler, flags, restorer, mask uintptr }

const (
	saRestorer = 0x04000000
	saOnStack  = 0x08000000 // use the runtime's stack for signal handlers
	saRestart  = 0x10000000

	sigDfl = 0
	sigIgn = 1
)

// pending has bit n set once signal n has arrived. The handler sets it.
var pending uint32

// previous are the actions that Signals replaced, of the signals that are held.
var (
	previous [32]action
	held     [32]bool
)

// record is the handler. Only the kernel calls it.
//
//lint:ignore U1000 recordAddress refers to it, in assembly
func record()

// recordAddress returns the address of record. restorerAddress returns that of the code to which a handler returns, or
// 0 if the kernel has its own.
func recordAddress() uintptr
func restorerAddress() uintptr

// Signals holds signals until Release, except those that this process ignores and those from 32 on.
func Signals(signals []os.Signal) {
	recording := action{handler: recordAddress(), flags: saOnStack | saRestart, restorer: restorerAddress()}
	if recording.restorer != 0 {
		recording.flags |= saRestorer
	}
	for _, s := range signals {
		n, ok := s.(syscall.Signal)
		if !ok || n <= 0 || int(n) >= len(previous) || held[n] {
			continue
		}
		if sigaction(n, nil, &previous[n]); previous[n].handler != sigIgn {
			held[n] = true
			sigaction(n, &recording, nil)
		}
	}
}

// Release restores the previous handlers and sends the signals that arrived to ch without blocking, as signal.Notify
// does. It must follow signal.Notify for ch, which has installed the runtime's handler for signals that had the
// kernel's default action (SIGTSTP): these keep that handler.
func Release(ch chan<- os.Signal) {
	for n := range previous {
		if held[n] && previous[n].handler != sigDfl {
			sigaction(syscall.Signal(n), &previous[n], nil)
		}
		held[n] = false
	}
	arrived := atomic.SwapUint32(&pending, 0)
	for n := range previous {
		if arrived&(1<<n) == 0 {
			continue
		}
		select {
		case ch <- syscall.Signal(n):
		default:
		}
	}
}

// sigaction fails only for SIGKILL and SIGSTOP, which cannot be held.
func sigaction(n syscall.Signal, act, old *action) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(act)),
		uintptr(unsafe.Pointer(old)), 8, 0, 0)
}
