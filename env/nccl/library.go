package nccl

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"slices"
	"strings"
)

// Found is what a file with a library tells of itself.
type Found struct {
	// Kind is NCCL or RCCL.
	Kind Library
	// Version is zero where the file does not tell it.
	Version Version
	// Text is the version in the library's own words: "2.30.7+cuda13.3".
	Text string
	// Names are the NCCL_… and RCCL_… words in it, sorted: all variables that it reads,
	// and words of its messages beside them.
	Names []string
}

// Has reports whether a word is among Names.
func (f Found) Has(name string) bool {
	_, found := slices.BinarySearch(f.Names, name)
	return found
}

// ErrNoLibrary says that a file holds neither NCCL nor RCCL.
var ErrNoLibrary = errors.New("it is neither NCCL nor RCCL")

// ReadLibrary reads the version and the names of variables out of a shared library
// of size bytes. Of an ELF file it reads the sections with constants and data alone,
// as most of these files is code for GPUs; of another all of it. It takes 64 KiB of
// memory beside the names, of which it keeps 4096 at most.
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

// constants are the sections of an ELF file where a compiler puts texts; none where it
// is no such file or says nothing of its sections.
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
	scanBlock = 64 << 10 // bytes that are looked at together
	longest   = 96       // of a name, and of a line with a version
	mostNames = 4096
)

// scanner collects names and versions from bytes.
type scanner struct {
	names map[string]bool
	texts [2]string // of NCCL and RCCL, as the first line of each kind says
}

// read goes through a section in blocks that overlap, so that nothing is cut.
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
			keep = len(block) - longest // what begins there may go on in the next block
		}
		s.look(block, begin, keep)
		if last {
			return nil
		}
		block, begin = block[:copy(block, block[keep-1:])], 1 // with the byte before it, which tells whether a word begins
	}
}

// look finds what begins in a block from the byte from on and before limit.
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

// name keeps a word that begins a text and has a letter behind NCCL_.
func (s *scanner) name(text []byte) {
	end := 0
	for end < len(text) && isWord(text[end]) {
		end++
	}
	if name := strings.TrimRight(string(text[:end]), "_"); end < longest && len(name) > 5 && len(s.names) < mostNames {
		s.names[name] = true
	}
}

// version keeps the number of a line such as "NCCL version 2.30.7+cuda13.3".
func (s *scanner) version(text []byte) {
	kind := 0
	if text[0] == 'R' {
		kind = 1
	}
	number := bytes.TrimPrefix(text[len("NCCL version "):], []byte(": ")) // RCCL's
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

// found tells what was collected.
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
