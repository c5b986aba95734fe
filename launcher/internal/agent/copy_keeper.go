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

// dismissKeeper has the process end that keeps what --copy sent, and take it away. It is behind the same connection as
// the agent, but knows no lease. A number that another process has got meanwhile is told by its command line.
func endCopyKeeper(c wire.Copied) {
	mark, ok := keeperMark(c.Dir)
	if c.PID <= 1 || !ok {
		return
	}
	keeper, err := os.FindProcess(c.PID) // a pidfd: what is looked at is what is signalled
	if err != nil {
		return
	}
	defer keeper.Release()
	line, err := os.ReadFile("/proc/" + strconv.Itoa(c.PID) + "/cmdline")
	if err != nil || !bytes.Contains(line, []byte(mark)) {
		return
	}
	_ = keeper.Signal(unix.SIGTERM) // it may have ended
}

// markDigits are those of a mark: 64 random bits in hexadecimal.
const markDigits = 16

// keeperMark is the part of the directory's name that was made for this one; false where there is none.
func keeperMark(dir string) (mark string, ok bool) {
	mark, ok = strings.CutPrefix(filepath.Base(dir), "gorun-job-m")
	return mark, ok && len(mark) == markDigits && strings.Trim(mark, "0123456789abcdef") == ""
}
