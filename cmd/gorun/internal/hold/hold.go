// Package hold keeps signals that come before this process listens to them.
//
// To subscribe by signal.Notify takes a tenth of a millisecond and several changes
// of threads, which a job that is over in three has no time for before its ranks
// run. But from the first rank on a signal is the job's. So for that moment the
// handlers of Go's runtime, which would end the process, give way to one that notes
// the signal's number: two system calls of a fraction of a microsecond for each signal.
package hold

import (
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// action is the kernel's struct sigaction, see rt_sigaction(2), the same for amd64
// and arm64.
type action struct{ handler, flags, restorer, mask uintptr }

const (
	saRestorer = 0x04000000
	saOnStack  = 0x08000000 // handlers run on the stack that the runtime has for them
	saRestart  = 0x10000000

	sigDfl = 0
	sigIgn = 1
)

// held has bit n set when signal n came. The handler sets it.
var held uint32

// before are the actions that were there, of those signals that are kept.
var (
	before [32]action
	kept   [32]bool
)

// note is the handler. It is called by the kernel only.
//
//lint:ignore U1000 noteAddress refers to it, in assembly
func note()

// noteAddress returns where note's code begins, and restorerAddress where that
// begins to which a handler returns; 0 where the kernel has its own.
func noteAddress() uintptr
func restorerAddress() uintptr

// From now on keeps signals, but for those that this process ignores. Signals from
// 32 on are not kept.
func From(signals []os.Signal) {
	mine := action{handler: noteAddress(), flags: saOnStack | saRestart, restorer: restorerAddress()}
	if mine.restorer != 0 {
		mine.flags |= saRestorer
	}
	for _, s := range signals {
		n, ok := s.(syscall.Signal)
		if !ok || n <= 0 || int(n) >= len(before) || kept[n] {
			continue
		}
		if sigaction(n, nil, &before[n]); before[n].handler != sigIgn {
			kept[n] = true
			sigaction(n, &mine, nil)
		}
	}
}

// Until ends the holding. The channel, to which signal.Notify leads by now, gets
// what was held, as signal.Notify sends: without waiting. For a signal that was
// left to the kernel (SIGTSTP) signal.Notify has brought Go's handler; the others'
// was there before, and comes back.
func Until(ch chan<- os.Signal) {
	for n := range before {
		if kept[n] && before[n].handler != sigDfl {
			sigaction(syscall.Signal(n), &before[n], nil)
		}
		kept[n] = false
	}
	for n, came := 0, atomic.SwapUint32(&held, 0); n < len(before); n++ {
		if came&(1<<n) == 0 {
			continue
		}
		select {
		case ch <- syscall.Signal(n):
		default:
		}
	}
}

// sigaction cannot fail but for SIGKILL and SIGSTOP, which nobody keeps.
func sigaction(n syscall.Signal, act, old *action) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(act)),
		uintptr(unsafe.Pointer(old)), 8, 0, 0)
}
