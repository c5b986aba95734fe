package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// savedLimit bounds a file of a saved machine, in bytes; the longest that [Save]
// writes, the GPUs of a large node, has some ten thousand.
const savedLimit = 4 << 20

// savedTree is the file tree of a saved machine, which may come from a stranger: no
// link leads out of its folder, and what could keep a reader waiting or has no
// end (pipes, devices) is not read.
type savedTree struct {
	fs.ReadLinkFS
}

// openSaved opens a folder; the caller closes root when it has read the machine.
func openSaved(dir string) (tree savedTree, root *os.Root, err error) {
	root, err = os.OpenRoot(dir)
	if err != nil {
		return savedTree{}, nil, err
	}
	links, ok := root.FS().(fs.ReadLinkFS)
	if !ok {
		return savedTree{}, nil, errors.Join(errors.ErrUnsupported, root.Close())
	}
	return savedTree{links}, root, nil
}

// Open opens directories and regular files of a bearable size alone.
func (s savedTree) Open(name string) (fs.File, error) {
	info, err := fs.Stat(s.ReadLinkFS, name)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("neither a file nor a folder")}
	case info.Size() > savedLimit && !info.IsDir():
		return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%d bytes are more than the %d that a file of a "+
			"machine may have", info.Size(), savedLimit)}
	}
	return s.ReadLinkFS.Open(name)
}

// Stat tells whether a file exists, without opening it: that of a pipe waits.
func (s savedTree) Stat(name string) (fs.FileInfo, error) { return fs.Stat(s.ReadLinkFS, name) }
