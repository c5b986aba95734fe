package printable

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
)

// Cause returns the cause in an error of package os, without the operation and the path.
func Cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Error returns the text of an error without the names that Go has for operations: "x: no such file or directory" for
// "open x: no such file or directory", and "timed out" for "context deadline exceeded". A path that the text names just
// before is not repeated.
func Error(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		before, after, _ := strings.Cut(text, e.Error())
		if path := e.Path + ": "; path == "/dev/stdout: " {
			before += "cannot write to standard output: "
		} else if !strings.HasSuffix(before, path) {
			before += path
		}
		text = before + e.Err.Error() + after
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		text = strings.Replace(text, e.Error(), "cannot resolve host name "+e.Name, 1)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		text = strings.Replace(text, e.Op+" "+e.Net+": ", "", 1)
	}
	return strings.NewReplacer(context.DeadlineExceeded.Error(), "timed out", os.ErrDeadlineExceeded.Error(), "timed out",
		"operation was canceled", "interrupted", context.Canceled.Error(), "interrupted").Replace(text)
}

// Unwritten says why a file could not be written.
func Unwritten(path string, err error) error {
	cause := Error(Cause(err))
	if errors.Is(err, syscall.ENOENT) {
		cause = "no such directory"
	}
	return errors.New("cannot write " + path + ": " + cause)
}
