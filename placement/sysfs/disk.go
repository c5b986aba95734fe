package sysfs

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// disk is the file tree below a folder whose name ends in a slash, such as that of
// the running system. It reads a file by three system calls; os.DirFS takes six.
type disk string

// Open opens a file for the parts of io/fs that have no method of their own.
func (d disk) Open(name string) (fs.File, error) { return os.Open(string(d) + name) }

// ReadFile reads a whole file. The kernel's text files are short, and give the
// rest of a line only to a second read; an empty read ends all of them.
func (d disk) ReadFile(name string) ([]byte, error) {
	fd, err := unix.Open(string(d)+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	data := make([]byte, 0, 1024)
	for {
		n, err := unix.Read(fd, data[len(data):cap(data)])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if n == 0 {
			return data, nil
		}
		data = data[:len(data)+n]
		if len(data) == cap(data) {
			data = append(data, make([]byte, len(data))...)[:len(data)]
		}
	}
}

// Stat tells whether a file exists.
func (d disk) Stat(name string) (fs.FileInfo, error) { return os.Stat(string(d) + name) }

// ReadDir lists a directory.
func (d disk) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(string(d) + name) }

// ReadLink tells where a symbolic link points to.
func (d disk) ReadLink(name string) (string, error) { return os.Readlink(string(d) + name) }

// Lstat is Stat, but of a link itself.
func (d disk) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(string(d) + name) }
