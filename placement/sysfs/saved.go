package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// savedLimit is the maximum size of a file in a saved machine, in bytes. The longest file from [Save],
// the GPUs of a large node, has about 10,000 bytes.
const savedLimit = 4 << 20

// savedTree is the file tree of a saved machine from an untrusted source. Links cannot leave its
// folder. It does not read pipes and devices, because they can block or have no end.
type savedTree struct {
	fs.ReadLinkFS
}

// openSaved opens a folder. The caller must close root after reading the machine.
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

// Open opens only directories and regular files of at most savedLimit bytes.
func (s savedTree) Open(name string) (fs.File, error) {
	info, err := fs.Stat(s.ReadLinkFS, name)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("neither a file nor a folder")}
	case info.Size() > savedLimit && !info.IsDir():
		return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%d bytes exceed the limit of %d for a file",
			info.Size(), savedLimit)}
	}
	return s.ReadLinkFS.Open(name)
}

// Stat reports whether a file exists. It does not open the file, because opening a pipe blocks.
func (s savedTree) Stat(name string) (fs.FileInfo, error) { return fs.Stat(s.ReadLinkFS, name) }
