package process

import (
	"bytes"
	"fmt"
	"os"
	"unsafe"
)

// guardSelf describes this process to its guard.
type guardSelf struct {
	start Ticks
	// environ is the guard's environment: only the marker of the job that this process itself is in, so that
	// job's sweep finds the guard. The rest may hold secrets.
	environ []string
}

func readSelf() (self guardSelf, err error) {
	line, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return self, err
	}
	p, ok := parseStat(line)
	if !ok {
		return self, fmt.Errorf("unexpected line %q in /proc/self/stat", line)
	}
	self.start = p.Start
	_, _, words, _ := cutStat(line)
	if word := bytes.Fields(words); len(word) > statEnvEnd { // emulators have fewer fields
		if m := markerIn(memory(word[statEnvStart], word[statEnvEnd])); m != "" {
			self.environ = []string{MarkerVar + "=" + string(m)}
		}
	}
	return self, nil
}

// memory returns the bytes of this process between two decimal addresses. The kernel placed the initial environment
// there, above the first stack. The addresses are 0 if the kernel hides them.
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
