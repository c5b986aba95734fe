package stacks

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	errTorn    = errors.New("the memory changes or is not Python's")
	errVersion = errors.New("not a known version of Python")
)

// offset is a place in CPython's structures; offsets has its bytes from the beginning of its structure.
type offset int

const (
	interpreters    offset = iota // of the runtime: the newest interpreter
	nextInterpreter               // of an interpreter
	threads                       // of an interpreter: the newest thread
	nextThread                    // of a thread
	currentFrame                  // of a thread, before 3.13 of its C frame
	previousFrame                 // of a frame
	executable                    // of a frame: its code
	instruction                   // of a frame
	frameOwner                    // of a frame
	codeFile                      // of code
	codeName                      // of code
	codeLines                     // of code: the table of lines
	codeFirstLine                 // of code
	codeBytes                     // of code: the first instruction
	objectType                    // of an object
	typeName                      // of a type
	bytesLength                   // of bytes
	bytesData                     // of bytes
	stringState                   // of a string
	stringLength                  // of a string
	stringSize                    // of an ASCII string, which its characters follow
	numOffsets
)

type offsets [numOffsets]uint64

// headers has the offsets of versions that do not publish them, from their headers.
func headers() map[string]offsets {
	return map[string]offsets{
		"11": {40, 0, 16, 8, 8, 48, 32, 56, 69, 112, 120, 136, 72, 184, 8, 24, 16, 32, 32, 16, 48},
		"12": {40, 0, 72, 8, 0, 8, 0, 56, 70, 112, 120, 136, 68, 192, 8, 24, 16, 32, 32, 16, 40},
	}
}

// published says which words of _Py_DebugOffsets, the beginning of the runtime since 3.13, have them.
func published() map[byte]offsets {
	return map[byte]offsets{
		13: {5, 8, 9, 21, 23, 29, 30, 31, 33, 35, 36, 38, 39, 43, 45, 47, 65, 66, 68, 69, 70},
		14: {5, 8, 9, 24, 26, 32, 33, 34, 36, 40, 41, 43, 44, 48, 51, 53, 75, 76, 78, 79, 80},
		15: {5, 8, 9, 24, 26, 40, 41, 42, 44, 48, 49, 51, 52, 56, 59, 61, 87, 88, 90, 91, 92},
	}
}

// Limits of what is believed.
const (
	longestText   = 4 << 10 // characters
	longestTable  = 4 << 20 // bytes
	longestList   = 10_000  // interpreters or threads
	largestOffset = 1 << 20 // bytes
	deepest       = 200     // frames
	pythonTries   = 5
	inC           = 3  // the least owner of a frame that C code pushed
	cFrame        = 56 // offset in a thread of its C frame, before 3.13
)

// python is an interpreter's memory.
type python struct {
	memory io.ReaderAt
	offsets
	runtime      uint64
	viaCFrame    bool
	freeThreaded bool
	codeType     uint64 // once known
	err          error  // the first failure, after which nothing is read

	maps   string // the files that are mapped
	source string // the file of the innermost frame of the main thread
	at     int    // the line that it executes
}

// frames returns the frames of a Python program's main thread, innermost first. It does not stop the process.
func (p *python) frames(pid int) (lines []string, err error) {
	memory, err := os.Open(file(pid, "mem"))
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	p.memory = memory
	version, err := p.locate(pid)
	if err != nil {
		return nil, err
	}
	if p.learn(version); p.err != nil {
		return nil, p.err
	}
	return p.settle()
}

// torchWait is the frame of the wait for an operation of PyTorch's that was begun with async_op=True. It is C++, which
// has no frame of Python.
const torchWait = "Work.wait (torch/distributed/distributed_c10d)"

// mpiWaits are mpi4py's methods that wait for other ranks, in small letters.
var mpiWaits = strings.Fields("allgather allgatherv allreduce alltoall alltoallv alltoallw barrier bcast exscan " +
	"gather gatherv mprobe probe recv reduce reduce_scatter scan scatter scatterv send sendrecv ssend wait waitall")

// awaits returns the frame of the function that waits for other ranks, if the line that a program executes calls one
// of PyTorch or, with mpi, mpi4py: they are C++ and C, which have no frames of Python. Lines with other calls prove
// nothing.
func (p *python) awaits(pid int, mpi bool) string {
	torch := strings.Contains(p.maps, "/libtorch_cpu.so")
	if !torch && !mpi {
		return ""
	}
	line := p.sourceLine(pid)
	before, _, _ := strings.Cut(line, "(")
	method := before[strings.LastIndexByte(before, '.')+1:]
	switch {
	case torch && strings.Contains(line, ".wait("):
		return torchWait
	case mpi && strings.Count(line, "(") == 1 && slices.Contains(mpiWaits, strings.ToLower(method)):
		return method + mpi4pyFrame
	}
	return ""
}

// sourceLine returns the line that the program executes, "" if its file cannot be read.
func (p *python) sourceLine(pid int) string {
	from := "cwd/"
	if path.IsAbs(p.source) {
		from = "root"
	}
	f, err := os.OpenFile(file(pid, from)+p.source, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() { // /dev/stdin is this process's own
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(f, longestTable))
	lines := strings.Split(string(text), "\n")
	if p.at < 1 || p.at > len(lines) {
		return ""
	}
	return lines[p.at-1]
}

// settle reads frames until two readings agree, or takes the last of a few.
func (p *python) settle() (lines []string, err error) {
	for range pythonTries {
		p.err = nil
		now := p.stack()
		if p.err != nil {
			continue
		}
		if slices.Equal(now, lines) {
			return now, nil
		}
		lines = now
	}
	if len(lines) > 0 {
		return lines, nil
	}
	return nil, p.err
}

// locate finds the interpreter's runtime in the program or its libpython, and returns the version in that file's name.
func (p *python) locate(pid int) (version string, err error) {
	exe, err := os.Readlink(file(pid, "exe"))
	if err != nil {
		return "", err
	}
	maps, err := os.ReadFile(file(pid, "maps"))
	if err != nil {
		return "", err
	}
	p.maps = string(maps)
	for line := range strings.Lines(p.maps) {
		// 00400000-0041f000 r--p 00000000 fe:00 1234   /usr/bin/python3.11
		mapping, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "/")
		f := strings.Fields(mapping)
		if name = "/" + name; len(f) < 3 || strings.Trim(f[2], "0") != "" {
			continue
		}
		where := file(pid, "root") + name
		if name == exe {
			where = file(pid, "exe")
		} else if !strings.HasPrefix(path.Base(name), "libpython3.") {
			continue
		}
		begin, _, _ := strings.Cut(f[0], "-")
		start, _ := strconv.ParseUint(begin, 16, 64)
		if p.runtime = runtimeAddress(where, start); p.runtime != 0 {
			_, version, _ = strings.Cut(path.Base(name), "python3.")
			return version[:min(2, len(version))], nil
		}
	}
	return "", errVersion
}

// runtimeAddress returns the address of the runtime in a file that is mapped at start, or 0.
func runtimeAddress(name string, start uint64) uint64 {
	f, err := elf.Open(name)
	if err != nil {
		return 0
	}
	defer f.Close()
	section := f.Section(".PyRuntime")
	load := slices.IndexFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_LOAD })
	if section == nil || load < 0 {
		return 0
	}
	return start + section.Addr - (f.Progs[load].Vaddr - f.Progs[load].Off)
}

// learn finds out the offsets.
func (p *python) learn(version string) {
	var words [93]uint64
	raw := p.bytes(p.runtime, uint64(8*len(words)))
	if !bytes.HasPrefix(raw, []byte("xdebugpy")) {
		if p.offsets, p.viaCFrame = headers()[version]; !p.viaCFrame {
			p.fail(errVersion)
		}
		return
	}
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(raw[8*i:])
	}
	places, known := published()[byte(words[1]>>16)]
	if !known || words[1]>>24 != 3 {
		p.fail(errVersion)
	}
	p.freeThreaded = words[2] != 0
	for i, place := range places {
		if p.offsets[i] = words[place]; p.offsets[i] > largestOffset {
			p.fail(errVersion)
		}
	}
}

func (p *python) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// bytes reads memory. After a failure, all bytes are 0.
func (p *python) bytes(at, length uint64) []byte {
	raw := make([]byte, length)
	if p.err == nil {
		_, err := p.memory.ReadAt(raw, int64(at))
		p.fail(err)
	}
	if p.err != nil {
		clear(raw)
	}
	return raw
}

// word reads a pointer.
func (p *python) word(at uint64) uint64 { return binary.LittleEndian.Uint64(p.bytes(at, 8)) }

// field reads a pointer in a structure.
func (p *python) field(of uint64, o offset) uint64 { return p.word(of + p.offsets[o]) }

// list returns the elements of a list, whose last one is the oldest, the oldest first.
func (p *python) list(of uint64, first, next offset) (all []uint64) {
	for at := p.field(of, first); at != 0; at = p.field(at, next) {
		if all = append(all, at); len(all) == longestList {
			p.fail(errTorn)
		}
	}
	slices.Reverse(all)
	return all
}

// stack returns the frames of the main thread, the oldest one of the oldest interpreter. If it waits for the end of
// others, those of the first one that runs the user's own code follow.
func (p *python) stack() (lines []string) {
	p.source = ""
	var all []uint64
	if list := p.list(p.runtime, interpreters, nextInterpreter); len(list) > 0 {
		all = p.list(list[0], threads, nextThread)
	}
	for i, thread := range all {
		other := p.thread(thread)
		if i == 0 {
			lines = other
			if !slices.ContainsFunc(lines[:min(len(lines), 2)], joins) {
				break
			}
		} else if slices.ContainsFunc(other, isOwn) {
			other[0] = "in another thread: " + other[0]
			lines = append(lines[:min(len(lines), 2)], other...)
			break
		}
	}
	return lines[:min(len(lines), frames)]
}

func joins(frame string) bool { return strings.HasPrefix(frame, "join (python3.") }
func isOwn(frame string) bool {
	return !strings.Contains(frame, "/") && !strings.Contains(frame, "(<frozen ")
}

// thread returns the innermost frames of a thread. The last of them is of the user's own code, however deep in
// libraries the thread is.
func (p *python) thread(at uint64) (lines []string) {
	if p.viaCFrame {
		at = p.word(at + cFrame)
	}
	at = p.field(at, currentFrame)
	for range deepest {
		if at == 0 || len(lines) == frames {
			break
		}
		if p.bytes(at+p.offsets[frameOwner], 1)[0] < inC {
			if line := p.frame(at); len(lines) < frames-1 || isOwn(line) {
				lines = append(lines, line)
			}
		}
		at = p.field(at, previousFrame)
	}
	return lines
}

// frame describes a frame of Python code.
func (p *python) frame(at uint64) string {
	code := p.field(at, executable) &^ 7 // a tag
	if kind := p.field(code, objectType); kind != p.codeType || kind == 0 {
		if string(p.bytes(p.field(kind, typeName), 5)) != "code\x00" {
			p.fail(errTorn)
			return ""
		}
		p.codeType = kind
	}
	source, line := p.text(p.field(code, codeFile)), p.line(at, code)
	if p.source == "" {
		p.source, p.at = source, line
	}
	place := pythonPlace(source)
	if line > 0 {
		place += ":" + strconv.Itoa(line)
	}
	return p.text(p.field(code, codeName)) + " (" + place + ")"
}

// text reads a string.
func (p *python) text(at uint64) string {
	length, state := p.field(at, stringLength), p.field(at, stringState)>>2
	if p.freeThreaded {
		state >>= 6
	}
	const compact, ascii = 1 << 3, 1 << 4
	width := state & 7
	if length == 0 || length > longestText || state&compact == 0 || width != 1 && width != 2 && width != 4 {
		p.fail(errTorn)
		return ""
	}
	at += p.offsets[stringSize]
	if state&ascii == 0 {
		at += 16 // size and address of its UTF-8
		if p.offsets == headers()["11"] {
			at += 8
		}
	}
	var text []rune
	for c := range slices.Chunk(p.bytes(at, length*width), int(width)) {
		text = append(text, rune(binary.LittleEndian.Uint32(append(slices.Clone(c), 0, 0, 0, 0))))
	}
	return string(text)
}

// line returns the line of the instruction that a frame executes, 0 if it is not known.
func (p *python) line(frame, code uint64) int {
	table := p.field(code, codeLines)
	length := p.field(table, bytesLength)
	if length > longestTable {
		p.fail(errTorn)
		return 0
	}
	first := int(int32(p.field(code, codeFirstLine)))
	executed := int64(p.field(frame, instruction)-code-p.offsets[codeBytes]) / 2
	if executed < 0 { // the call has just begun
		return first
	}
	return lineOf(p.bytes(table+p.offsets[bytesData], length), first, uint64(executed))
}

// lineOf finds an instruction's line in a table of the form in CPython's InternalDocs/code_objects.md: each entry
// begins with a byte that has the highest bit set.
func lineOf(table []byte, line int, instruction uint64) int {
	for len(table) > 0 {
		entry := table[0]
		end := 1 + slices.IndexFunc(table[1:], func(b byte) bool { return b >= 0x80 })
		if end == 0 {
			end = len(table)
		}
		known := true
		switch kind := entry >> 3 & 15; kind {
		case 15:
			known = false
		case 14, 13:
			line += signedVarint(table[1:end])
		case 12, 11:
			line += int(kind - 10)
		}
		covered := uint64(entry&7) + 1
		if instruction < covered && known {
			return line
		} else if instruction < covered {
			return 0
		}
		instruction -= covered
		table = table[end:]
	}
	return 0
}

// signedVarint reads six bits a byte, the least significant first; of the whole number the lowest bit is the sign.
func signedVarint(raw []byte) int {
	value := 0
	for i, b := range raw[:min(len(raw), 6)] {
		if value |= int(b&0x3f) << (6 * i); b&0x40 == 0 {
			break
		}
	}
	if value&1 != 0 {
		return -(value >> 1)
	}
	return value >> 1
}
