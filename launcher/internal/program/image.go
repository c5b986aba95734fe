package program

import (
	"bytes"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// head is the beginning of a file: enough for what the kernel looks at of a script
// (256 bytes) and, in most binaries, for the name of the loader.
type head struct {
	bytes [1024]byte
	n     int
}

func (h *head) data() []byte   { return h.bytes[:h.n] }
func (h *head) isELF() bool    { return bytes.HasPrefix(h.data(), []byte("\x7fELF")) }
func (h *head) isScript() bool { return bytes.HasPrefix(h.data(), []byte("#!")) }

// readHead reads the beginning of the file at path.
func readHead(path string) (*head, error) {
	fd, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	h := new(head)
	err = h.read(fd)
	return h, err
}

func (h *head) read(fd int) error {
	n, err := readAt(fd, h.bytes[:], 0)
	h.n = n
	return err
}

// openFile opens path without os.File, which would register it with the poller.
func openFile(path string) (int, error) {
	for {
		fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

// readAt fills p from offset on as far as the file goes.
func readAt(fd int, p []byte, offset int64) (int, error) {
	n := 0
	for n < len(p) {
		m, err := syscall.Pread(fd, p[n:], offset+int64(n))
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return n, err
		case m == 0:
			return n, nil
		default:
			n += m
		}
	}
	return n, nil
}

// isCompiled reports whether f is a binary.
func (f file) isCompiled() bool {
	h, err := readHead(f.open)
	return err == nil && h.isELF()
}

// scriptDepth is how many interpreters may be scripts themselves; Linux gives up
// after five.
const scriptDepth = 5

// runnable says why the kernel would not execute f, which is known as name.
func (w *Request) runnable(name string, f file) *Error {
	return w.runnableAt(name, f, 0)
}

func (w *Request) runnableAt(name string, f file, depth int) *Error {
	switch {
	case !f.isRegular():
		return refused(name, "is not a file but "+kindOf(f.mode))
	case !f.mayRun():
		return w.notExecutable(name, f)
	}
	fd, err := openFile(f.open)
	if err == syscall.EACCES {
		return nil // what may be executed and not be read is the kernel's to judge
	}
	if err != nil {
		return refused(name, err.Error())
	}
	defer syscall.Close(fd)
	var h head
	if err := h.read(fd); err != nil {
		return refused(name, "read it: "+err.Error())
	}
	return w.image(name, f, fd, &h, depth)
}

// image judges a file that may be executed by its beginning.
func (w *Request) image(name string, f file, fd int, h *head, depth int) *Error {
	switch {
	case h.isELF():
		return w.elf(name, f, fd, h)
	case h.isScript():
		return w.shebang(name, h, depth)
	case h.n == 0:
		return refused(name, "is an empty file")
	case kernelRuns(f.open): // binfmt_misc: Java, Windows programs, …
		return nil
	}
	if system := otherSystem(h.data()); system != "" {
		return refused(name, "is a program for "+system+", this is Linux")
	}
	if bytes.IndexByte(h.data(), 0) >= 0 {
		return refused(name, "is neither a program for this machine nor a script")
	}
	line, runs := runnerOf(name)
	return refused(name, "is a text without a #! line, so the kernel does not know what runs it").
		hint("begin it with " + line + " or name what runs it: " + runs + " " + word(f.exec))
}

// notExecutable says why a file may not be executed.
func (w *Request) notExecutable(name string, f file) *Error {
	h, err := readHead(f.open)
	switch {
	case f.hasRunBit() && mountedNoexec(f.open):
		return refused(name, "is on a file system that is mounted without execution (noexec)")
	case f.hasRunBit():
		return refused(name, "permission denied: its run bit is not for this user")
	case err == nil && (h.isELF() || h.isScript()):
		return refused(name, "has no run bit").hint("chmod +x " + word(f.exec))
	case strings.HasSuffix(name, ".sh"):
		return refused(name, "has no run bit").hint("name what runs it: sh " + word(f.exec))
	}
	if how := compiled(f.exec); how != "" {
		return refused(name, "is no program yet").hint(how)
	}
	return refused(name, "has no run bit and does not look like a program")
}

func mountedNoexec(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Flags&unix.ST_NOEXEC != 0
}

// runnerOf guesses what runs a text from its name: as a first line, and as a command.
func runnerOf(name string) (line, command string) {
	for _, runner := range [...]struct{ ending, command string }{
		{".py", "python3"}, {".pl", "perl"}, {".rb", "ruby"}, {".jl", "julia"}, {".lua", "lua"}, {".bash", "bash"},
	} {
		if strings.HasSuffix(name, runner.ending) {
			return "a line such as #!/usr/bin/env " + runner.command, runner.command
		}
	}
	return "#!/bin/sh", "sh"
}

// otherSystem names the system whose programs begin like this.
func otherSystem(head []byte) string {
	for _, magic := range []string{"\xcf\xfa\xed\xfe", "\xce\xfa\xed\xfe", "\xca\xfe\xba\xbe\x00\x00\x00\x02"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return "macOS"
		}
	}
	if bytes.HasPrefix(head, []byte("MZ")) && bytes.IndexByte(head, 0) >= 0 {
		return "Windows"
	}
	return ""
}

// kindOf names what is not a regular file.
func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFIFO:
		return "a named pipe"
	case unix.S_IFSOCK:
		return "a socket"
	}
	return "a device"
}
