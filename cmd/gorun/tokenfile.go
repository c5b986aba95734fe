package main

import (
	"io"
	"io/fs"
	"os"
)

// tokenLimit is more than a token can have, in bytes.
const tokenLimit = 64 << 10

// readToken reads a file with a secret and says who may read it: the file that was
// opened, whatever its name means by now.
func readToken(name string) ([]byte, fs.FileMode, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	content, err := io.ReadAll(io.LimitReader(f, tokenLimit))
	return content, info.Mode(), err
}
