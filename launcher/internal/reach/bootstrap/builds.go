package bootstrap

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// Program is gorun's agent in the available builds, one per architecture.
type Program struct {
	// Version is part of a copy's name on the host, for people; the hash of its content identifies it.
	Version string
	Builds  []Build
}

// Build is one executable file.
type Build struct {
	Arch   string // a GOARCH: amd64, arm64
	Path   string // the local file; "" for one that is part of this program
	Size   int64  // bytes
	SHA256 [sha256.Size]byte
	// packed is what to send of a program that is part of this one, by the host's unpacker: zstd, gzip or "".
	packed map[string]func() (parcel, error)
	// Loader is its dynamic loader, "" for a static file.
	Loader string
}

// Extra is a file that is copied beside gorun.
type Extra struct {
	Name string // gorun-gpu
	Build
	// If is a path that a host must have to get the file; "" sends it to all.
	If string
}

// kernelArch maps a GOARCH to the Linux kernel's name.
var kernelArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

var elfArch = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// FindBuilds returns the agents that are part of this program, or the executable itself, which can be an agent, too.
func FindBuilds(executable, version string) (p Program, err error) {
	p = Program{Version: version, Builds: agentsOf(agentIndex, agentFiles())}
	if len(p.Builds) > 0 {
		return p, nil
	}
	own, err := ReadBuild(executable)
	if err != nil {
		return Program{}, fmt.Errorf("read the program to copy: %w", err)
	}
	p.Builds = []Build{own}
	return p, nil
}

// parcel is what is sent of a build.
type parcel struct {
	unpacker string // a program; "" if it is the content itself
	path     string // a local file; "" for content
	content  string
	size     int64
}

func newParcel(unpacker, content string) parcel {
	return parcel{unpacker: unpacker, content: content, size: int64(len(content))}
}

// agentsOf returns the agents that `make gorun` has made a part of this program: from the lines of their index, and the
// content by architecture, compressed by zstd.
func agentsOf(index string, files map[string]string) (builds []Build) {
	for line := range strings.Lines(index) {
		var b Build
		var sum []byte
		_, _ = fmt.Sscanf(line, "%s %d %x", &b.Arch, &b.Size, &sum)
		copy(b.SHA256[:], sum)
		zstd := newParcel("zstd", files[b.Arch])
		plain := sync.OnceValues(func() (parcel, error) {
			content, err := unpack(zstd.content, b.Size)
			return newParcel("", string(content)), err
		})
		b.packed = map[string]func() (parcel, error){
			"zstd": func() (parcel, error) { return zstd, nil },
			"gzip": sync.OnceValues(func() (parcel, error) {
				p, err := plain()
				var packed bytes.Buffer
				to, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
				_, _ = to.Write([]byte(p.content)) // a buffer takes all
				_ = to.Close()
				return newParcel("gzip", packed.String()), err
			}),
			"": plain,
		}
		builds = append(builds, b)
	}
	return builds
}

// unpack returns the content of a zstd frame. Go's library unpacks one only where it is a section of an ELF file.
func unpack(frame string, size int64) ([]byte, error) {
	const headers = 64 + 2*64
	var file bytes.Buffer
	for _, part := range []any{
		elf.Header64{
			Ident:   [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
			Version: uint32(elf.EV_CURRENT), Shoff: 64, Ehsize: 64, Shentsize: 64, Shnum: 2,
		},
		elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 63, Size: 1}, // the first header ends with a zero
		elf.Section64{
			Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_COMPRESSED), Off: headers, Size: 24 + uint64(len(frame)),
		},
		elf.Chdr64{Type: uint32(elf.COMPRESS_ZSTD), Size: uint64(size), Addralign: 1},
		[]byte(frame),
	} {
		_ = binary.Write(&file, binary.LittleEndian, part)
	}
	image, err := elf.NewFile(bytes.NewReader(file.Bytes()))
	if err != nil {
		return nil, err
	}
	return image.Sections[1].Data()
}

// parcel returns what to send to a host with an unpacker, or with none.
func (b Build) parcel(unpacker string) (parcel, error) {
	if of := b.packed[unpacker]; of != nil {
		return of()
	}
	return parcel{path: b.Path, size: b.Size}, nil
}

// open returns the bytes to send.
func (p parcel) open() (io.ReadCloser, error) {
	if p.path == "" {
		return io.NopCloser(strings.NewReader(p.content)), nil
	}
	return os.Open(p.path)
}

// ReadBuild reads and hashes an executable file.
func ReadBuild(path string) (Build, error) {
	f, err := os.Open(path)
	if err != nil {
		return Build{}, err
	}
	defer f.Close()
	b := Build{Path: path}
	hash := sha256.New()
	if b.Size, err = io.Copy(hash, f); err != nil {
		return Build{}, fmt.Errorf("%s: %w", path, err)
	}
	hash.Sum(b.SHA256[:0])
	image, err := elf.NewFile(f)
	if err != nil {
		return Build{}, fmt.Errorf("%s is not a Linux program: %w", path, err)
	}
	if b.Arch = elfArch[image.Machine]; b.Arch == "" {
		return Build{}, fmt.Errorf("%s is built for %s; gorun knows amd64 and arm64", path, image.Machine)
	}
	b.Loader = loader(image)
	return b, nil
}

// loader returns the path of the dynamic loader, "" for a static program.
func loader(image *elf.File) string {
	for _, segment := range image.Progs {
		if segment.Type == elf.PT_INTERP {
			name, _ := io.ReadAll(io.LimitReader(segment.Open(), 4096))
			return strings.TrimRight(string(name), "\x00")
		}
	}
	return ""
}

// file is a build under its name on the host.
type file struct {
	name string
	Build
}

// String returns the form that the script reads and asks for.
func (f file) String() string { return fmt.Sprintf("%s:%d:%x", f.name, f.Size, f.SHA256) }

// dirOf returns the name of the directory on a host with these files. The content determines it.
func dirOf(version string, files []file) string {
	hash := sha256.New()
	for _, f := range files {
		fmt.Fprintf(hash, "%s %x\n", f.name, f.SHA256)
	}
	return dirName(version) + "-" + hex.EncodeToString(hash.Sum(nil)[:8])
}

// dirName returns a version as part of a directory's name.
func dirName(version string) string {
	name := strings.Map(func(r rune) rune {
		if isPlainRune(r) && !strings.ContainsRune("/:=,", r) {
			return r
		}
		return '_'
	}, version)
	return cmp.Or(strings.TrimLeft(name[:min(len(name), 64)], ".-"), "unknown")
}
