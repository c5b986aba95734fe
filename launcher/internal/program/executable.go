package program

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/internal/printable"
)

// headSize covers the part of a script that the kernel reads (256 bytes) and, in most binaries, the loader's path.
const headSize = 1024

// head is the beginning of a file.
type head []byte

func (h head) isELF() bool    { return bytes.HasPrefix(h, []byte("\x7fELF")) }
func (h head) isScript() bool { return bytes.HasPrefix(h, []byte("#!")) }

// readHead reads the beginning of the file at path.
func readHead(path string) (head, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return headOf(f, headSize)
}

// headOf reads up to size bytes.
func headOf(f *os.File, size int) (head, error) {
	h := make(head, size)
	n, err := f.ReadAt(h, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return h[:n], printable.Cause(err)
}

// openFile opens a file of any type without blocking.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	return f, printable.Cause(err)
}

// isCompiled reports whether f is a binary.
func (f file) isCompiled() bool {
	h, err := readHead(f.open)
	return err == nil && h.isELF()
}

// maxInterpreters is the number of nested script interpreters that Linux accepts.
const maxInterpreters = 5

// checkExecutable returns an error if the kernel would not execute f, which messages call name. depth counts script
// interpreters.
func (req *request) checkExecutable(name string, f file, depth int) *Error {
	switch {
	case !f.mode.IsRegular():
		return refused(name, "is not a file but "+kindOf(f.mode))
	case !f.mayRun():
		return req.notExecutable(name, f)
	}
	image, err := openFile(f.open)
	if err == syscall.EACCES {
		return nil // an executable that cannot be read: the kernel decides
	}
	if err != nil {
		return refused(name, err.Error())
	}
	defer image.Close()
	h, err := headOf(image, headSize)
	if err != nil {
		return refused(name, "read it: "+err.Error())
	}
	switch {
	case h.isELF():
		return req.checkELF(name, f, image, h)
	case h.isScript():
		return req.checkScript(name, h, depth)
	case len(h) == 0:
		return refused(name, "is an empty file")
	case kernelRuns(f.open): // binfmt_misc: Java, Windows programs, …
		return nil
	}
	if system := otherSystem(h); system != "" {
		return refused(name, "is a program for "+system+", this is Linux")
	}
	if bytes.IndexByte(h, 0) >= 0 {
		return refused(name, "is neither a program for this machine nor a script")
	}
	line, runs := runnerOf(name)
	return refused(name, "is a text without a #! line, so the kernel does not know what runs it").
		hint("run `gorun " + runs + " " + word(f.exec) + "`, or begin the file with " + line)
}

// notExecutable returns the reason why a file may not be executed.
func (req *request) notExecutable(name string, f file) *Error {
	h, err := readHead(f.open)
	switch {
	case f.hasRunBit() && isNoexec(f.open):
		return refused(name, "is on a file system that is mounted without execution (noexec)")
	case f.hasRunBit():
		return refused(name, "permission denied: this user may not execute it")
	case bytes.Contains(h, []byte("\n#SBATCH ")):
		return refused(name, "is a batch script of Slurm").hint("run `sbatch " + word(f.exec) + "`")
	case err != nil:
		return refused(name, "permission denied: this user may neither read nor execute it")
	case h.isELF() || h.isScript():
		return refused(name, notExecutable).hint("run `chmod +x " + word(f.exec) + "`")
	}
	if hint := compileHint(f.exec); hint != "" {
		return refused(name, "is no program yet").hint(hint)
	}
	ending := path.Ext(name)
	if _, runs := runnerOf(name); bytes.IndexByte(h, 0) < 0 && (runs != "sh" || ending == "" || ending == ".sh") {
		return refused(name, notExecutable+", and without a #! line").hint("run `gorun " + runs + " " + word(f.exec) + "`")
	}
	return refused(name, notExecutable).hint("run `chmod +x " + word(f.exec) + "` if it is a program")
}

const notExecutable = "permission denied: not executable"

func isNoexec(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Flags&unix.ST_NOEXEC != 0
}

// runnerOf guesses a text's interpreter from its name: as a #! line, and as a command.
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

// otherSystem names the system of a foreign program, "" if unknown.
func otherSystem(h head) string {
	for _, magic := range []string{"\xcf\xfa\xed\xfe", "\xce\xfa\xed\xfe", "\xca\xfe\xba\xbe\x00\x00\x00\x02"} {
		if bytes.HasPrefix(h, []byte(magic)) {
			return "macOS"
		}
	}
	if bytes.HasPrefix(h, []byte("MZ")) && bytes.IndexByte(h, 0) >= 0 {
		return "Windows"
	}
	return ""
}

// kindOf names a file that is not regular.
func kindOf(mode os.FileMode) string {
	switch mode.Type() {
	case os.ModeDir:
		return "a directory"
	case os.ModeNamedPipe:
		return "a named pipe"
	case os.ModeSocket:
		return "a socket"
	}
	return "a device"
}
