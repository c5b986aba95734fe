package command

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalName is a signal's name without SIG.
func signalName(signal syscall.Signal) string {
	return strings.TrimPrefix(unix.SignalName(signal), "SIG")
}
