package process

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guardSelf is what the kernel shows of this process.
type guardSelf struct {
	start Ticks
	words [2][]byte // argv and the environment as the program got them
}

func readSelf() (guardSelf, error) {
	line, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return guardSelf{}, err
	}
	p, ok := parseStat(line)
	_, _, rest, _ := cutStat(line)
	word := bytes.Fields(rest)
	if !ok {
		return guardSelf{}, fmt.Errorf("strange line %q in /proc/self/stat", line)
	}
	if len(word) <= statEnvEnd { // an emulator's
		return guardSelf{start: p.Start}, nil
	}
	return guardSelf{start: p.Start, words: [2][]byte{
		memory(word[statArgStart], word[statArgEnd]),
		memory(word[statEnvStart], word[statEnvEnd]),
	}}, nil
}

// memory returns the bytes of this process from one address to another, both in
// decimal. The kernel put argv and the environment there, above the first stack;
// where it hides the addresses they are 0.
//
//go:nocheckptr
func memory(from, to []byte) []byte {
	first, ok1 := decimal(from)
	end, ok2 := decimal(to)
	if !ok1 || !ok2 || first == 0 || end <= first {
		return nil
	}
	address := uintptr(first)
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), end-first)
}

// newForkPlan prepares what the guard shows: its neutral name instead of our
// command line, and of our environment, which may hold secrets, the marker of the
// job that we are in ourselves. By that its sweep finds this guard.
func newForkPlan(self guardSelf, read, exe, link int) *forkPlan {
	marker := append([]byte(nil), 0)
	plan := &forkPlan{
		pipe: uintptr(read), exe: uintptr(exe), link: uintptr(link),
		argv: &[3]*byte{cString(guardName), cString(guardVerb)}, envp: new([2]*byte),
		name: cString(guardName), words: self.words, descriptors: openFilesLimit(),
		poll:  [2]unix.PollFd{{Fd: 0}, {Fd: linkDescriptor, Events: unix.POLLRDHUP}},
		pause: unix.NsecToTimespec(20e6),
	}
	if m := markerIn(self.words[1]); m != "" {
		plan.envp[0] = cString(MarkerVar + "=" + string(m))
		marker = append([]byte(MarkerVar+"="+string(m)), 0)
	}
	plan.shown = [2][]byte{blank(len(self.words[0]), guardName), blank(len(self.words[1]), string(marker))}
	return plan
}

// blank returns size bytes that begin with text and end in at least one zero.
func blank(size int, text string) []byte {
	b := make([]byte, size)
	if size > 0 {
		copy(b[:size-1], text)
	}
	return b
}

func cString(s string) *byte { return unsafe.SliceData(append([]byte(s), 0)) }

func openFilesLimit() uintptr {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1 << 16
	}
	return uintptr(limit.Cur)
}
