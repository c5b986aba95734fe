package program

import (
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/internal/printable"
)

// file is a file that may be the program.
type file struct {
	exec     string // its path for execve, in the ranks' working directory
	open     string // its path for this process, in the launcher's
	mode     os.FileMode
	fromPATH bool // found in PATH, not in the working directory
}

func (f file) isDir() bool     { return f.mode.IsDir() }
func (f file) hasRunBit() bool { return f.mode&0o111 != 0 }

// mayRun queries the kernel, which considers mode bits, access lists and noexec mounts.
func (f file) mayRun() bool { return unix.Access(f.open, unix.X_OK) == nil }

// runsItself reports whether a source file is executable and starts with #!.
func (f file) runsItself() bool {
	if !f.hasRunBit() || !f.mayRun() {
		return false
	}
	h, err := readHead(f.open)
	return err == nil && h.isScript()
}

// stat sets the mode of the file at f.open. Its error is an error number.
func (f *file) stat() error {
	info, err := os.Stat(f.open)
	if err == nil {
		f.mode = info.Mode()
	}
	return printable.Cause(err)
}

// local returns the file of this name in the ranks' working directory.
func (req *request) local(name string) file {
	switch {
	case strings.HasPrefix(name, "/"):
		return file{exec: name, open: name}
	case !strings.Contains(name, "/"):
		name = "./" + name // a script's interpreter needs the slash, unlike execve
	}
	if req.Dir == "" {
		return file{exec: name, open: name}
	}
	return file{exec: name, open: req.Dir + "/" + name}
}

// here returns the file of this name in the launcher's working directory; ok is false if that is [Request.local].
func (req *request) here(name string) (f file, ok bool) {
	if req.Dir == "" || strings.HasPrefix(name, "/") {
		return file{}, false
	}
	wd, err := os.Getwd()
	return file{exec: wd + "/" + name, open: name}, err == nil
}

// checkDir refuses a working directory that no rank could enter: otherwise every relative name would seem to be
// missing.
func (req *request) checkDir() *Error {
	if req.Dir == "" {
		return nil
	}
	d := file{open: req.Dir}
	switch err := d.stat(); {
	case err == syscall.ENOENT:
		return missing(req.Name, "the working directory "+visible(req.Dir)+" does not exist")
	case err != nil:
		return refused(req.Name, "the working directory "+visible(req.Dir)+": "+reason(req.Dir, err))
	case !d.isDir():
		return refused(req.Name, "the working directory "+visible(req.Dir)+" is not a directory")
	}
	return nil
}

// unreachable is the error of a file that cannot be examined.
func unreachable(program, path string, err error) *Error {
	return &Error{Code: codeOf(err), Program: program, Reason: reason(path, err)}
}

// reason explains the error of a system call on path.
func reason(path string, err error) string {
	switch err {
	case syscall.ENOENT:
		if target, linkErr := os.Readlink(path); linkErr == nil {
			return "is a symbolic link to " + visible(target) + ", which does not exist"
		}
		return "no such file"
	case syscall.EACCES:
		closed := func(dir string) bool { return unix.Access(dir, unix.X_OK) == unix.EACCES }
		if dir := firstParent(path, closed); dir != "" {
			return "permission denied: the directory " + visible(dir) + " is not accessible to this user"
		}
		return "permission denied"
	case syscall.ENOTDIR:
		noDirectory := func(dir string) bool {
			f := file{open: dir}
			return f.stat() == nil && !f.isDir()
		}
		if parent := firstParent(path, noDirectory); parent != "" {
			return visible(parent) + " is not a directory"
		}
	case syscall.ELOOP:
		return "its symbolic links form a loop"
	}
	return err.Error()
}

// firstParent returns the first directory of path, from the left, that matches; "" if none does.
func firstParent(path string, matches func(dir string) bool) string {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' && path[i-1] != '/' && matches(path[:i]) {
			return path[:i]
		}
	}
	return ""
}
