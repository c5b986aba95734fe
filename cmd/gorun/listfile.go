package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// listLimit bounds a host file or a rank file, in bytes: a million lines of some
// sixty. It is there for names that are mistaken (a disk image, /dev/zero).
const listLimit = 64 << 20

// readList reads a host file or a rank file. Pipes and /dev/stdin are read to their
// end; what has none, or is longer than any list, is an error that names the limit.
func readList(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	tooLong := &fs.PathError{
		Op: "read", Path: name,
		Err: fmt.Errorf("more than %d MiB, the most that a list of hosts or ranks may have", listLimit>>20),
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > listLimit {
		return nil, tooLong
	}
	text, err := io.ReadAll(io.LimitReader(f, listLimit+1))
	if err == nil && len(text) > listLimit {
		return nil, tooLong
	}
	return bytes.TrimPrefix(text, []byte("\ufeff")), err // editors of other systems begin files by this mark
}
