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

// dismissKeeper has the process end that keeps what --copy sent, and take it away. It is behind the same connection as the
// agent, but knows no lease. A number that another process has got meanwhile is told by its command line.
func dismissKeeper(c wire.Copied) {
	if c.PID <= 0 {
		return
	}
	keeper, err := os.FindProcess(c.PID) // a pidfd: what is looked at is what is signalled
	if err != nil {
		return
	}
	defer keeper.Release()
	line, err := os.ReadFile("/proc/" + strconv.Itoa(c.PID) + "/cmdline")
	if err != nil || !bytes.Contains(line, []byte(keeperMark(c.Dir))) {
		return
	}
	_ = keeper.Signal(unix.SIGTERM) // it may have ended
}

// keeperMark is the part of the directory's name that was made for this one.
func keeperMark(dir string) string {
	base := filepath.Base(dir)
	return base[strings.LastIndexByte(base, '-')+1:]
}
