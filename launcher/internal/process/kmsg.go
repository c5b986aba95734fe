package process

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxKernelLog bounds what KernelLog reads in bytes.
const maxKernelLog = 256 << 10

// KernelLog returns what the kernel has logged since a time, the last lines if there are many. Most users may not read
// it (sysctl kernel.dmesg_restrict).
func KernelLog(since Ticks) ([]byte, error) {
	text := make([]byte, maxKernelLog)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, text)
	if err != nil {
		return nil, os.NewSyscallError("klogctl", err)
	}
	return kernelLines(text[:n], since), nil
}

// kernelLines returns the lines since a time, as dmesg shows them: of "<6>[   22.432247] text" all but the priority.
func kernelLines(text []byte, since Ticks) (lines []byte) {
	for line := range bytes.Lines(text) {
		_, line, _ = bytes.Cut(line, []byte(">"))
		at, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte("[")), []byte("]"))
		seconds, err := strconv.ParseFloat(string(bytes.TrimSpace(at)), 64)
		if err == nil && seconds >= since.Duration().Seconds() {
			lines = append(lines, line...)
		}
	}
	return lines
}
