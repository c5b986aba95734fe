package stacks

import (
	"bytes"
	"debug/elf"
	"io"
)

// isGo looks for the build information of Go, which survives strip(1). Gorun itself
// does not count: it would pass a signal on to the ranks of its own job.
func isGo(name string) bool {
	f, err := elf.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	section := f.Section(".go.buildinfo")
	if section == nil {
		return false
	}
	const limit = 64 << 10 // of what is read, in bytes
	info, err := io.ReadAll(io.LimitReader(section.Open(), limit))
	return err == nil && !bytes.Contains(info, []byte("path\tgorun/cmd/gorun\n"))
}
