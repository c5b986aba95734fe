package nccl

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"slices"
	"strings"
)

// Found describes the library in a file.
type Found struct {
	// Kind is NCCL or RCCL.
	Kind Library
	// Version is zero if the file does not contain it.
	Version Version
	// Text is the version as the library spells it: "2.30.7+cuda13.3".
	Text string
	// Names are the words in the file that begin with NCCL_ or RCCL_, sorted. They include all variables that
	// the library reads, and words of its messages.
	Names []string
}

// Has reports whether Names contains a name.
func (f Found) Has(name string) bool {
	_, found := slices.BinarySearch(f.Names, name)
	return found
}

// ErrNoLibrary reports that a file contains neither NCCL nor RCCL.
var ErrNoLibrary = errors.New("it is neither NCCL nor RCCL")

// ReadLibrary reads the version and the names of variables from a shared library of size bytes. In an ELF file
// it reads only the constant and data sections, since most of the file is GPU code. It reads other files
// completely. It needs 64 KiB of memory besides the names, and keeps at most 4096 of them.
func ReadLibrary(file io.ReaderAt, size int64) (Found, error) {
	s := scanner{names: map[string]bool{}}
	read := false
	for _, section := range constants(file) {
		if section.Offset < uint64(size) {
			read = true
			if err := s.read(io.NewSectionReader(file, int64(section.Offset),
				min(int64(section.FileSize), size-int64(section.Offset)))); err != nil {
				return Found{}, err
			}
		}
	}
	if !read {
		if err := s.read(io.NewSectionReader(file, 0, size)); err != nil {
			return Found{}, err
		}
	}
	return s.found()
}

// constants returns the sections of an ELF file that hold string constants. It returns none for other files
// and files without section headers.
func constants(file io.ReaderAt) (sections []elf.SectionHeader) {
	f, err := elf.NewFile(file)
	if err != nil {
		return nil
	}
	for _, s := range f.Sections {
		named := s.Name == ".rodata" || strings.HasPrefix(s.Name, ".rodata.") || s.Name == ".data" || s.Name == ".data.rel.ro"
		if named && s.Type == elf.SHT_PROGBITS && s.Flags&elf.SHF_ALLOC != 0 && s.Offset < 1<<62 && s.FileSize < 1<<62 {
			sections = append(sections, s.SectionHeader)
		}
	}
	return sections
}

const (
	scanBlock = 64 << 10 // bytes scanned at once
	longest   = 96       // length of a name, and of a line with a version
	mostNames = 4096
)

// scanner collects names and versions.
type scanner struct {
	names map[string]bool
	texts [2]string // first version line of NCCL and of RCCL
}

// read scans a section in overlapping blocks, so that no word is cut.
func (s *scanner) read(from io.Reader) error {
	block, begin := make([]byte, 0, scanBlock), 0
	for {
		n, err := io.ReadFull(from, block[len(block):cap(block)])
		block = block[:len(block)+n]
		last := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !last {
			return err
		}
		keep := len(block)
		if !last {
			keep = len(block) - longest // a word that begins there may continue in the next block
		}
		s.look(block, begin, keep)
		if last {
			return nil
		}
		block, begin = block[:copy(block, block[keep-1:])], 1 // with the byte before, to detect the start of a word
	}
}

// look scans a block for words that begin in [from, limit).
func (s *scanner) look(block []byte, from, limit int) {
	for at := from; ; {
		i := bytes.Index(block[at:], []byte("CCL"))
		if i < 0 {
			return
		}
		start := at + i - 1
		at = start + len("NCCL")
		switch {
		case start >= limit:
			return
		case start < from || block[start] != 'N' && block[start] != 'R' || start > 0 && isWord(block[start-1]):
			continue
		}
		text := block[start:min(start+longest, len(block))]
		switch {
		case len(text) > 4 && text[4] == '_':
			s.name(text)
		case bytes.HasPrefix(text[4:], []byte(" version ")):
			s.version(text)
		}
	}
}

// name keeps a word at the start of a text if a letter follows NCCL_.
func (s *scanner) name(text []byte) {
	end := 0
	for end < len(text) && isWord(text[end]) {
		end++
	}
	if name := strings.TrimRight(string(text[:end]), "_"); end < longest && len(name) > 5 && len(s.names) < mostNames {
		s.names[name] = true
	}
}

// version keeps the number in a line such as "NCCL version 2.30.7+cuda13.3".
func (s *scanner) version(text []byte) {
	kind := 0
	if text[0] == 'R' {
		kind = 1
	}
	number := bytes.TrimPrefix(text[len("NCCL version "):], []byte(": ")) // RCCL has this colon
	end := 0
	for end < len(number) && number[end] > ' ' && number[end] < 0x7f {
		end++
	}
	if _, err := ParseVersion(string(number[:end])); err == nil && s.texts[kind] == "" {
		s.texts[kind] = string(number[:end])
	}
}

func isWord(b byte) bool {
	return b == '_' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}

// found returns the result.
func (s *scanner) found() (Found, error) {
	f := Found{Kind: NCCL, Text: s.texts[0]}
	for name := range s.names {
		f.Names = append(f.Names, name)
		if strings.HasPrefix(name, "RCCL_") {
			f.Kind = RCCL
		}
	}
	slices.Sort(f.Names)
	if f.Kind == RCCL && s.texts[1] != "" {
		f.Text = s.texts[1]
	}
	if f.Text != "" {
		f.Version, _ = ParseVersion(f.Text)
	}
	if !f.Has("NCCL_DEBUG") || !f.Has("NCCL_SOCKET_IFNAME") {
		return Found{}, ErrNoLibrary
	}
	return f, nil
}
