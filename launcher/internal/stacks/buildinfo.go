package stacks

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
)

// isGo looks for the build information of Go, which survives strip(1). Gorun itself
// does not count: it would pass a signal on to the ranks of its own job.
func isGo(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	info, ok := section(f, ".go.buildinfo")
	return ok && !bytes.Contains(info, []byte("path\tgorun/cmd/gorun\n"))
}

// Of the ELF format (elf(5)), in the 64-bit form of amd64 and arm64, what leads to a
// section by its name. The package debug/elf would be half a megabyte of debugging
// formats.
const (
	elfMagic        = "\x7fELF\x02\x01" // 64 bits, little-endian
	elfHeaderSize   = 64
	elfSectionSize  = 64
	elfMostSections = 1 << 12
	// sectionLimit is how much of a section is read, in bytes.
	sectionLimit = 64 << 10
)

// section reads the beginning of the section of that name; ok is false where there is
// none.
func section(f io.ReaderAt, name string) (text []byte, ok bool) {
	header := part(f, 0, elfHeaderSize)
	if !bytes.HasPrefix(header, []byte(elfMagic)) {
		return nil, false
	}
	little := binary.LittleEndian
	count, names := int(little.Uint16(header[60:])), int(little.Uint16(header[62:]))
	if little.Uint16(header[58:]) != elfSectionSize || names >= count || count > elfMostSections {
		return nil, false
	}
	table := part(f, little.Uint64(header[40:]), uint64(count)*elfSectionSize)
	if table == nil {
		return nil, false
	}
	entry := func(i int) []byte { return table[i*elfSectionSize : (i+1)*elfSectionSize] }
	content := func(e []byte) []byte {
		return part(f, little.Uint64(e[24:]), min(little.Uint64(e[32:]), sectionLimit))
	}
	known := content(entry(names))
	for i := range count {
		start := little.Uint32(entry(i))
		if uint64(start) < uint64(len(known)) && bytes.HasPrefix(known[start:], []byte(name+"\x00")) {
			text = content(entry(i))
			return text, text != nil
		}
	}
	return nil, false
}

// part reads a part of a file; it is nil where the file does not have all of it.
func part(f io.ReaderAt, offset, size uint64) []byte {
	text := make([]byte, size)
	if offset > 1<<62 {
		return nil
	}
	if n, _ := f.ReadAt(text, int64(offset)); n < len(text) {
		return nil
	}
	return text
}
