package output

import (
	"os"
	"path/filepath"
)

// place is where log files may be: below a directory that is open, whatever links are in it, or anywhere.
type place struct{ root *os.Root }

// below is what a path is called from the open directory.
func (p place) below(path string) string {
	if rel, err := filepath.Rel(p.root.Name(), path); err == nil {
		return rel
	}
	return path // which is refused
}

func (p place) open(path string, flags int) (*os.File, error) {
	if p.root == nil {
		return os.OpenFile(path, flags, 0o666)
	}
	return p.root.OpenFile(p.below(path), flags, 0o666)
}

func (p place) mkdir(path string, mode os.FileMode) error {
	if p.root == nil {
		return os.Mkdir(path, mode)
	}
	return p.root.Mkdir(p.below(path), mode)
}

func (p place) mkdirAll(path string) error {
	if p.root == nil {
		return os.MkdirAll(path, 0o777)
	}
	return p.root.MkdirAll(p.below(path), 0o777)
}

func (p place) stat(path string) (os.FileInfo, error) {
	if p.root == nil {
		return os.Stat(path)
	}
	return p.root.Stat(p.below(path))
}

func (p place) removeAll(path string) error {
	if p.root == nil {
		return os.RemoveAll(path)
	}
	return p.root.RemoveAll(p.below(path))
}
