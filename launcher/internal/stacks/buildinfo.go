package stacks

import (
	"bytes"
	"debug/elf"
	"io"
)

// isGo looks for Go's build information, which survives strip(1). It excludes gorun itself, whatever its module path,
// which would forward a signal to the ranks of its own job.
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
	const limit = 64 << 10 // bytes
	info, err := io.ReadAll(io.LimitReader(section.Open(), limit))
	return err == nil && !bytes.Contains(info, []byte("/cmd/gorun\n"))
}
