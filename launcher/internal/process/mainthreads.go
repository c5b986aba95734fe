package process

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// MainThread is what the main threads of a session's leaders did since the first call of Loads that counted it.
type MainThread struct {
	CPU  time.Duration
	Runs int64 // how often they ran until they waited
	// Received counts those runs that began with data from a socket or pipe, as no timer can have caused them.
	Received int64
}

// MainThreads counts what main threads do between calls of Loads: those of session leaders, and of programs to which
// these leave the work. Other threads and helpers wake up also in a rank that hangs, for heartbeats and watchdogs.
type MainThreads struct {
	mu   sync.Mutex // guards what follows
	at   time.Time
	seen map[identity]MainThread // by the last call, since each thread's start
	sums map[int]MainThread      // by session
}

// look counts what the leaders of sessions did since the last call, and completes loads.
func (m *MainThreads) look(leaders map[int][]Proc, loads map[int]Load) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sums == nil {
		m.sums = map[int]MainThread{}
	}
	now, seen := time.Now(), map[identity]MainThread{}
	for session, procs := range leaders {
		sum := m.sums[session]
		for _, p := range procs {
			is, ok := p.mainThread()
			if !ok {
				continue
			}
			seen[p.identity()] = is
			if was, known := m.seen[p.identity()]; known {
				runs := is.Runs - was.Runs
				sum.CPU, sum.Runs = sum.CPU+is.CPU-was.CPU, sum.Runs+runs
				if p.receives(runs, now.Sub(m.at)) {
					sum.Received += runs
				}
			}
		}
		m.sums[session] = sum
		load := loads[session]
		load.Main = sum
		loads[session] = load
	}
	m.at, m.seen = now, seen
}

// mainThread reads all but Received.
func (p Proc) mainThread() (t MainThread, ok bool) {
	proc := "/proc/" + strconv.Itoa(p.PID) // two files about the main thread alone
	ran, _ := os.ReadFile(proc + "/schedstat")
	status, _ := os.ReadFile(proc + "/status")
	inNS, _, _ := bytes.Cut(ran, []byte(" "))
	_, rest, _ := bytes.Cut(status, []byte("\nvoluntary_ctxt_switches:\t")) // schedstat's runs count preemptions, too
	waits, _, _ := bytes.Cut(rest, []byte("\n"))
	cpu, ok := decimal(inNS)
	runs, valid := decimal(waits)
	return MainThread{CPU: time.Duration(cpu), Runs: int64(runs)}, ok && valid
}

// sysPoll is poll(2) on amd64; arm64 uses ppoll(2), and the number for fsetxattr(2), which has no such argument.
const sysPoll = 7

// receives reports whether p's main thread waits for data, and no timer explains that number of runs in a time. It
// counts no futex, as threads wake each other up by timers, and no epoll, as event loops have heartbeats and timerfds.
func (p Proc) receives(runs int64, in time.Duration) bool {
	number, argument := systemCall(p.PID)
	proc := "/proc/" + strconv.Itoa(p.PID)
	var timeout time.Duration
	switch number {
	case unix.SYS_READ, unix.SYS_RECVFROM, unix.SYS_RECVMSG:
		file, err := os.Stat(proc + "/fd/" + strconv.FormatUint(argument[0], 10))
		return err == nil && file.Mode()&(os.ModeSocket|os.ModeNamedPipe) != 0
	case sysPoll:
		timeout = time.Duration(int32(argument[2])) * time.Millisecond
	case unix.SYS_PPOLL:
		if timeout = -1; argument[2] != 0 {
			timeout = p.timespec(argument[2])
		}
	}
	return timeout < 0 || runs > 1 && timeout > 2*in/time.Duration(runs-1) // the first may end an older wait
}

// timespec reads a time at an address in p's memory, 0 if it cannot be read.
func (p Proc) timespec(address uint64) time.Duration {
	memory, err := os.Open("/proc/" + strconv.Itoa(p.PID) + "/mem")
	if err != nil {
		return 0
	}
	defer memory.Close()
	var t [16]byte
	if _, err = memory.ReadAt(t[:], int64(address)); err != nil {
		return 0
	}
	seconds := min(binary.NativeEndian.Uint64(t[:]), 1<<20)
	return time.Duration(seconds)*time.Second + time.Duration(binary.NativeEndian.Uint64(t[8:]))
}
