package program

import (
	"cmp"
	"os"
	"strings"
	"syscall"
)

// defaultPATH is the default of execvp if PATH is not set.
const defaultPATH = "/bin:/usr/bin"

// find finds the file for a name, by the rules in the package comment.
func (req *request) find(name string) (file, *Error) {
	switch {
	case strings.Contains(name, "/") || name == "." || name == "..":
		return req.findFile(name)
	case strings.HasSuffix(name, ".py") || strings.HasSuffix(name, ".go"):
		if f, err := req.findLocal(name); err == nil {
			return f, nil
		}
	}
	return req.findName(name)
}

// findFile finds a name with a slash.
func (req *request) findFile(name string) (file, *Error) {
	f, err := req.findLocal(name)
	if err == syscall.ENOENT && !isLink(f.open) {
		return file{}, req.suggest(name, missing(name, req.notFoundReason("no such file")))
	}
	if err != nil {
		return file{}, unreachable(name, f.open, err)
	}
	return f, nil
}

// findLocal finds a name in the ranks' working directory, else in the launcher's. Its error is that of the ranks'
// directory.
func (req *request) findLocal(name string) (file, error) {
	f := req.local(name)
	err := f.stat()
	if err != syscall.ENOENT {
		return f, err
	}
	if other, ok := req.here(name); ok && other.stat() == nil {
		return other, nil
	}
	return f, err
}

// findName finds a name without a slash: PATH, then the working directory.
func (req *request) findName(name string) (file, *Error) {
	inPATH, found := req.searchPATH(name)
	if found && inPATH.mayRun() {
		return inPATH, nil
	}
	local, err := req.findLocal(name)
	switch {
	case err == nil:
		return local, nil
	case found: // for a message about its permissions
		return inPATH, nil
	case err == syscall.ENOENT && !isLink(local.open):
		return file{}, req.suggest(name, missing(name, req.notFoundReason("not found in PATH or the working directory")))
	}
	return file{}, unreachable(name, local.open, err)
}

// searchPATH returns the first executable file of this name in PATH, or else the first file.
func (req *request) searchPATH(name string) (first file, found bool) {
	path := cmp.Or(req.lookup("PATH"), defaultPATH)
	if req.Path != "" {
		path = req.Path + ":" + path
	}
	for dir := range strings.SplitSeq(path, ":") {
		dir = cmp.Or(dir, ".") // POSIX: an empty entry is the working directory
		f := req.local(strings.TrimSuffix(dir, "/") + "/" + name)
		if f.stat() != nil || !f.mode.IsRegular() {
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

// notFoundReason returns the given reason, unless the working directory itself was removed.
func (req *request) notFoundReason(reason string) string {
	if req.Dir == "" {
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
