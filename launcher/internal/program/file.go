package program

import (
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// file is a file that may be the program.
type file struct {
	exec string // its path as execve gets it, in the ranks' working directory
	open string // its path as this process opens it, in the launcher's
	mode uint32 // of stat(2)
	// fromPATH: a search of PATH found it, not a look into the working directory.
	fromPATH bool
}

func (f file) isDir() bool     { return f.mode&unix.S_IFMT == unix.S_IFDIR }
func (f file) isRegular() bool { return f.mode&unix.S_IFMT == unix.S_IFREG }
func (f file) hasRunBit() bool { return f.mode&0o111 != 0 }

// mayRun asks the kernel: run bits, access lists, mounts without execution.
func (f file) mayRun() bool { return unix.Access(f.open, unix.X_OK) == nil }

// runsItself reports whether a source file says itself how it is run: it may be
// executed and begins with #!.
func (f file) runsItself() bool {
	if !f.hasRunBit() || !f.mayRun() {
		return false
	}
	h, err := readHead(f.open)
	return err == nil && h.isScript()
}

// stat fills in the mode of the file at f.open.
func (f *file) stat() error {
	for {
		var st syscall.Stat_t
		err := syscall.Stat(f.open, &st)
		if err == syscall.EINTR { // FUSE and NFS
			continue
		}
		f.mode = st.Mode
		return err
	}
}

// local is the file that name means in the ranks' working directory.
func (w *Request) local(name string) file {
	switch {
	case strings.HasPrefix(name, "/"):
		return file{exec: name, open: name}
	case !strings.Contains(name, "/"):
		name = "./" + name // execve alone takes a bare name too, a script's interpreter does not
	}
	if w.Dir == "" {
		return file{exec: name, open: name}
	}
	return file{exec: name, open: w.Dir + "/" + name}
}

// here is the file that name means in the launcher's working directory; ok is
// false where that is no other place than [Request.local]'s.
func (w *Request) here(name string) (f file, ok bool) {
	if w.Dir == "" || strings.HasPrefix(name, "/") {
		return file{}, false
	}
	wd, err := os.Getwd()
	if err != nil {
		return file{}, false
	}
	return file{exec: wd + "/" + name, open: name}, true
}

// checkDir refuses a working directory that no rank could enter: every relative
// name would seem to be missing.
func (w *Request) checkDir() *Error {
	if w.Dir == "" {
		return nil
	}
	d := file{open: w.Dir}
	switch err := d.stat(); {
	case err == syscall.ENOENT:
		return missing(w.Name, "the working directory "+visible(w.Dir)+" does not exist")
	case err != nil:
		return refused(w.Name, "the working directory "+visible(w.Dir)+": "+reason(w.Dir, err))
	case !d.isDir():
		return refused(w.Name, "the working directory "+visible(w.Dir)+" is not a directory")
	}
	return nil
}

// unreachable explains why the file at path cannot be looked at.
func unreachable(program, path string, err error) *Error {
	return &Error{Code: codeOf(err), Program: program, Reason: reason(path, err)}
}

// reason is the cause behind the error of a system call on path, in words.
func reason(path string, err error) string {
	switch err {
	case syscall.ENOENT:
		if target, linkErr := os.Readlink(path); linkErr == nil {
			return "is a symbolic link to " + visible(target) + ", which does not exist"
		}
		return "no such file"
	case syscall.EACCES:
		if dir := lockedParent(path); dir != "" {
			return "permission denied: the directory " + visible(dir) + " is closed to this user"
		}
		return "permission denied"
	case syscall.ENOTDIR:
		if parent := notDirectory(path); parent != "" {
			return visible(parent) + " is not a directory"
		}
	case syscall.ELOOP:
		return "its symbolic links go round in a circle"
	}
	return err.Error()
}

// lockedParent is the first directory on the way to path that this user may not
// pass, or "".
func lockedParent(path string) string {
	return firstParent(path, func(dir string) bool { return unix.Access(dir, unix.X_OK) == unix.EACCES })
}

// notDirectory is the first parent of path that is something else, or "".
func notDirectory(path string) string {
	return firstParent(path, func(dir string) bool {
		f := file{open: dir}
		return f.stat() == nil && !f.isDir()
	})
}

// firstParent is the first directory on the way to path, from the root or the
// working directory on, of which is holds.
func firstParent(path string, is func(dir string) bool) string {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' && path[i-1] != '/' && is(path[:i]) {
			return path[:i]
		}
	}
	return ""
}
