package program

import (
	"os"
	"strings"
	"syscall"
)

// defaultPATH is what execvp searches where PATH is not set.
const defaultPATH = "/bin:/usr/bin"

// find looks for the file that name means; see the package comment for where and
// in which order.
func (w *Request) find(name string) (file, *Error) {
	switch {
	case strings.Contains(name, "/") || name == "." || name == "..":
		return w.findFile(name)
	case strings.HasSuffix(name, ".py") || strings.HasSuffix(name, ".go"):
		if f, err := w.findLocal(name); err == nil {
			return f, nil
		}
	}
	return w.findName(name)
}

// findFile finds a name with a slash.
func (w *Request) findFile(name string) (file, *Error) {
	f, err := w.findLocal(name)
	if err == syscall.ENOENT && !isLink(f.open) {
		return file{}, w.notFound(name, missing(name, w.nowhere("no such file")))
	}
	if err != nil {
		return file{}, unreachable(name, f.open, err)
	}
	return f, nil
}

// findLocal finds name as seen from the ranks' working directory, else from the
// launcher's. Its error is that of the first look.
func (w *Request) findLocal(name string) (file, error) {
	f := w.local(name)
	err := f.stat()
	if err != syscall.ENOENT {
		return f, err
	}
	if other, ok := w.here(name); ok && other.stat() == nil {
		return other, nil
	}
	return f, err
}

// findName finds a name without a slash: PATH, then the working directory.
func (w *Request) findName(name string) (file, *Error) {
	inPATH, found := w.searchPATH(name)
	if found && inPATH.mayRun() {
		return inPATH, nil
	}
	local, err := w.findLocal(name)
	switch {
	case err == nil:
		return local, nil
	case found: // so that the message is about its permissions
		return inPATH, nil
	case err == syscall.ENOENT && !isLink(local.open):
		return file{}, w.notFound(name, missing(name, w.nowhere("not found in PATH or the working directory")))
	}
	return file{}, unreachable(name, local.open, err)
}

// searchPATH returns the first file of PATH that has the name and may be executed,
// or else the first that has the name.
func (w *Request) searchPATH(name string) (first file, found bool) {
	path := w.Lookup("PATH")
	if path == "" {
		path = defaultPATH
	}
	if w.Path != "" {
		path = w.Path + ":" + path
	}
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "." // POSIX: an empty entry is the working directory
		}
		f := w.local(strings.TrimSuffix(dir, "/") + "/" + name)
		if f.stat() != nil || !f.isRegular() {
			continue
		}
		f.fromPATH = true
		if f.mayRun() {
			return f, true
		}
		if !found {
			first, found = f, true
		}
	}
	return first, found
}

// nowhere is the reason for a name that was not found: the given one, unless the
// working directory itself is gone.
func (w *Request) nowhere(reason string) string {
	if w.Dir == "" {
		if _, err := syscall.Getwd(); err == syscall.ENOENT {
			return "not found: the working directory was removed"
		}
	}
	return reason
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}
