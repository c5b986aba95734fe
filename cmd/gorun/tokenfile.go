package main

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/cmd/gorun/internal/dialect"
)

// tokenLimit is more than a token can have, in bytes.
const tokenLimit = 64 << 10

// readToken reads a file with a secret and says whose it is and who may read it: the file
// that was opened, whatever its name means by now. A pipe that nobody writes to is not
// waited for.
func readToken(name string) (dialect.TokenFile, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return dialect.TokenFile{}, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return dialect.TokenFile{}, err
	}
	file := dialect.TokenFile{Mode: info.Mode(), UID: int(info.Sys().(*syscall.Stat_t).Uid)}
	if file.Mode.IsRegular() {
		file.Content, err = io.ReadAll(io.LimitReader(f, tokenLimit))
	}
	return file, err
}
