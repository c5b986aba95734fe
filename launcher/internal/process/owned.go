package process

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Owned identifies a file or directory of a job by path, device and inode. Device and Inode are 0 for a directory about
// to be made.
type Owned struct {
	Path          string
	Device, Inode uint64
}

// Identify identifies the file at an absolute path, without following a symbolic link. Without one, Device and
// Inode are 0.
func Identify(path string) (Owned, error) {
	if !filepath.IsAbs(path) { // the guard runs in /
		return Owned{}, fmt.Errorf("%q is not an absolute path", path)
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

// OpenNew opens and identifies a directory that this process has just made. It fails if the path names something else
// by now, such as a directory that is not empty or another user's.
func OpenNew(path string) (*os.Root, Owned, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, Owned{}, err
	}
	st, err := statDir(root)
	names, listed := listDir(root, 1)
	if err == nil && (int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 || listed != nil || len(names) > 0) {
		err = fmt.Errorf("%s is not the directory that gorun made", path)
	}
	if err != nil {
		_ = root.Close()
		return nil, Owned{}, err
	}
	return root, Owned{Path: path, Device: st.Dev, Inode: st.Ino}, nil
}

// Remove removes the identified file, or the directory with all its contents, and nothing else: a symbolic link but not
// its target, no other file that has taken the path, and no other user's files. It resolves nothing below the directory
// by path, so replacing a component meanwhile does not redirect it. A directory that was not identified is removed
// only if it is empty.
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
		_ = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	case known:
		_ = unix.Unlinkat(parent, name, 0)
	}
}

// clear empties the directory if it is still the identified one.
func (o Owned) clear(path string) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return
	}
	defer root.Close()
	if st, err := statDir(root); err != nil || !o.is(st) {
		return
	}
	names, _ := listDir(root, -1) // remove what could be read
	for _, name := range names {
		_ = root.RemoveAll(name)
	}
}

func (o Owned) is(st *unix.Stat_t) bool { return st.Dev == o.Device && st.Ino == o.Inode }

// statDir returns the status of the open directory itself.
func statDir(root *os.Root) (*unix.Stat_t, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var st unix.Stat_t
	return &st, os.NewSyscallError("fstat", unix.Fstat(int(dir.Fd()), &st))
}

// listDir lists up to limit names in a directory; -1: all.
func listDir(root *os.Root, limit int) ([]string, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(limit)
	if err == io.EOF {
		err = nil
	}
	return names, err
}
