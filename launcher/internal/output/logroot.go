package output

import (
	"os"
	"path/filepath"
)

// logRoot opens log files below a directory, without following links out of it, or anywhere.
type logRoot struct{ root *os.Root }

// relative returns a path relative to the directory; one outside it stays, and is refused.
func (p logRoot) relative(path string) string {
	if rel, err := filepath.Rel(p.root.Name(), path); err == nil {
		return rel
	}
	return path
}

func (p logRoot) open(path string, flags int) (*os.File, error) {
	if p.root == nil {
		return os.OpenFile(path, flags, 0o666)
	}
	return p.root.OpenFile(p.relative(path), flags, 0o666)
}

func (p logRoot) mkdir(path string, mode os.FileMode) error {
	if p.root == nil {
		return os.Mkdir(path, mode)
	}
	return p.root.Mkdir(p.relative(path), mode)
}

func (p logRoot) mkdirAll(path string) error {
	if p.root == nil {
		return os.MkdirAll(path, 0o777)
	}
	return p.root.MkdirAll(p.relative(path), 0o777)
}

func (p logRoot) stat(path string) (os.FileInfo, error) {
	if p.root == nil {
		return os.Stat(path)
	}
	return p.root.Stat(p.relative(path))
}

func (p logRoot) removeAll(path string) error {
	if p.root == nil {
		return os.RemoveAll(path)
	}
	return p.root.RemoveAll(p.relative(path))
}
