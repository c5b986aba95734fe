package output

import (
	"io"
	"os"
	"reflect"
	"syscall"

	"golang.org/x/sys/unix"
)

// Destination is where a Console writes: one of gorun's own stdout and stderr.
type Destination struct {
	W        io.Writer // for an *os.File, see descriptor
	Terminal bool
	Width    int  // columns of the terminal; 0 for unknown
	Color    bool // labels are coloured
}

// descriptor writes to an open file by bare system calls, because of two differences to (*os.File).Write: a missing
// reader of descriptor 1 or 2 is an error, not a SIGPIPE that kills the program; and a descriptor that another process
// has made non-blocking since this program started is waited for.
type descriptor struct {
	conn syscall.RawConn
	act  func(fd uintptr) bool // made once, as a closure for each write would be garbage

	p   []byte // the current write and its result
	n   int
	err error
}

// writerOf returns the writer for a destination, which one goroutine may use.
func writerOf(w io.Writer) io.Writer {
	file, ok := w.(*os.File)
	if !ok {
		return w
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return w
	}
	d := &descriptor{conn: conn}
	d.act = func(fd uintptr) bool {
		d.n, d.err = writeDescriptor(int(fd), d.p)
		return true
	}
	return d
}

func (d *descriptor) Write(p []byte) (int, error) {
	d.p, d.n, d.err = p, 0, nil
	if err := d.conn.Write(d.act); err != nil {
		return d.n, err
	}
	return d.n, d.err
}

// writeDescriptor writes all of p.
func writeDescriptor(fd int, p []byte) (done int, err error) {
	for done < len(p) {
		n, err := unix.Write(fd, p[done:])
		switch {
		case err == unix.EAGAIN:
			awaitWritable(fd)
		case err == unix.EINTR:
		case err != nil:
			return done, err
		default:
			done += n
		}
	}
	return done, nil
}

// awaitWritable waits until the descriptor takes bytes, or has failed as the next write does.
func awaitWritable(fd int) {
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
}

// same reports whether two destinations are one terminal, pipe or file, which one goroutine must write.
func same(a, b Destination) bool {
	fileA, okA := a.W.(*os.File)
	fileB, okB := b.W.(*os.File)
	if !okA || !okB {
		t := reflect.TypeOf(a.W)
		return t == reflect.TypeOf(b.W) && (t == nil || t.Comparable()) && a.W == b.W
	}
	if fileA == fileB {
		return true
	}
	if a.Terminal && b.Terminal {
		if ttyA, ttyB := terminalNumber(fileA), terminalNumber(fileB); ttyA != 0 && ttyB != 0 {
			return ttyA == ttyB // /dev/tty has an inode of its own
		}
	}
	infoA, errA := fileA.Stat()
	infoB, errB := fileB.Stat()
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// terminalNumber returns the device number of a file's terminal; 0 for none.
func terminalNumber(f *os.File) uint32 {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	var number uint32
	_ = conn.Control(func(fd uintptr) {
		number, _ = unix.IoctlGetUint32(int(fd), unix.TIOCGDEV)
	})
	return number
}
