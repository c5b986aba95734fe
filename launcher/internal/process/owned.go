package process

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Owned is a file or directory that a job keeps for itself: where it was, and by device and inode which one it is. Both
// numbers are 0 for a directory that is about to be made.
type Owned struct {
	Path          string
	Device, Inode uint64
}

// Identify returns what a path names now. A symbolic link is not followed.
func Identify(path string) (Owned, error) {
	if !filepath.IsAbs(path) { // the guard runs in the root folder
		return Owned{}, fmt.Errorf("%q is no absolute path", path)
	}
	var st unix.Stat_t
	switch err := unix.Lstat(path, &st); {
	case err == unix.ENOENT:
		return Owned{Path: path}, nil
	case err != nil:
		return Owned{}, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return Owned{Path: path, Device: st.Dev, Inode: st.Ino}, nil
}

// OpenNew opens a directory that this process has just made, and identifies it. If something else has its name by
// now, such as a directory that is not empty or another user's, it is an error.
func OpenNew(path string) (*os.Root, Owned, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, Owned{}, err
	}
	st, err := statDir(root)
	names, listed := listDir(root, 1)
	if err == nil && (int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 || listed != nil || len(names) > 0) {
		err = fmt.Errorf("%s is not the directory that was made there", path)
	}
	if err != nil {
		_ = root.Close()
		return nil, Owned{}, err
	}
	return root, Owned{Path: path, Device: st.Dev, Inode: st.Ino}, nil
}

// Remove removes what was identified, with all below, and nothing else: a symbolic link itself and not what it points
// to, nothing that took the place of what was there, nothing of another user. Nothing below is found by a path, so that
// a component that is replaced meanwhile leads nowhere else. Of a directory that was not identified yet it removes an
// empty one alone.
func (o Owned) Remove() {
	parent, err := unix.Open(filepath.Dir(o.Path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(parent)
	name := filepath.Base(o.Path)
	var st unix.Stat_t
	if unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || int(st.Uid) != os.Geteuid() {
		return
	}
	known := o.Inode != 0
	switch {
	case known && !o.is(&st):
		return
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		if known {
			o.clear("/proc/self/fd/" + strconv.Itoa(parent) + "/" + name)
		}
		_ = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR) // nobody is left to hear about an error
	case known:
		_ = unix.Unlinkat(parent, name, 0)
	}
}

// clear empties the directory, if it is still this one.
func (o Owned) clear(path string) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return
	}
	defer root.Close()
	if st, err := statDir(root); err != nil || !o.is(st) {
		return
	}
	names, _ := listDir(root, -1) // what could be read
	for _, name := range names {
		_ = root.RemoveAll(name)
	}
}

func (o Owned) is(st *unix.Stat_t) bool { return st.Dev == o.Device && st.Ino == o.Inode }

// statDir is of the directory that is open, whatever has its name.
func statDir(root *os.Root) (*unix.Stat_t, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var st unix.Stat_t
	return &st, os.NewSyscallError("fstat", unix.Fstat(int(dir.Fd()), &st))
}

// listDir lists the first names in a directory, -1: all of them.
func listDir(root *os.Root, first int) ([]string, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(first)
	if err == io.EOF {
		err = nil
	}
	return names, err
}
