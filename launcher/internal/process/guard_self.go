package process

import (
	"bytes"
	"fmt"
	"os"
	"unsafe"
)

// guardSelf is what a guard has to know of this process.
type guardSelf struct {
	start Ticks
	// environ is a guard's: of ours, which may hold secrets, the marker of the job that we are in
	// ourselves. By that its sweep finds this guard.
	environ []string
}

func readSelf() (self guardSelf, err error) {
	line, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return self, err
	}
	p, ok := parseStat(line)
	if !ok {
		return self, fmt.Errorf("strange line %q in /proc/self/stat", line)
	}
	self.start = p.Start
	_, _, words, _ := cutStat(line)
	if word := bytes.Fields(words); len(word) > statEnvEnd { // an emulator has fewer
		if m := markerIn(memory(word[statEnvStart], word[statEnvEnd])); m != "" {
			self.environ = []string{MarkerVar + "=" + string(m)}
		}
	}
	return self, nil
}

// memory returns the bytes of this process from one address to another, both in
// decimal. The kernel put the environment there, above the first stack;
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
