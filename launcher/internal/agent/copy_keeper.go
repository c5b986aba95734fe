package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/wire"
)

// endCopyKeeper ends the process that keeps the files of --copy and removes them at its end. It uses the same
// connection as the agent but has no lease. Its command line proves that the pid was not reused.
func endCopyKeeper(c wire.Copied) {
	mark, ok := keeperMark(c.Dir)
	if c.PID <= 1 || !ok {
		return
	}
	keeper, err := os.FindProcess(c.PID) // a pidfd: the process checked is the one signalled
	if err != nil {
		return
	}
	defer keeper.Release()
	line, err := os.ReadFile("/proc/" + strconv.Itoa(c.PID) + "/cmdline")
	if err != nil || !bytes.Contains(line, []byte(mark)) {
		return
	}
	_ = keeper.Signal(unix.SIGTERM) // it may have exited
}

// markDigits is the length of a mark: 64 random bits in hexadecimal.
const markDigits = 16

// keeperMark returns the random part of the directory's name.
func keeperMark(dir string) (mark string, ok bool) {
	mark, ok = strings.CutPrefix(filepath.Base(dir), "gorun-job-m")
	return mark, ok && len(mark) == markDigits && strings.Trim(mark, "0123456789abcdef") == ""
}
