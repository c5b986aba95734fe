package bootstrap

import (
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
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
	// Gzip is the content compressed, GzipSHA256 its hash; "" for none.
	Gzip       string
	GzipSHA256 [sha256.Size]byte
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
	p = Program{Version: version, Builds: agentsOf(agentSums, agentFiles())}
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

// agentsOf returns the agents that `make gorun` has made a part of this program: from what sha256sum prints for
// agent-ARCH and agent-ARCH.gz, and the compressed content by architecture.
func agentsOf(sums string, files map[string]string) (builds []Build) {
	hashes := map[string][sha256.Size]byte{}
	for line := range strings.Lines(sums) {
		hash, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		var sum [sha256.Size]byte
		_, _ = hex.Decode(sum[:], []byte(hash))
		hashes[name] = sum
	}
	for _, arch := range slices.Sorted(maps.Keys(files)) {
		name, packed := "agent-"+arch, files[arch]
		size := binary.LittleEndian.Uint32([]byte(packed[len(packed)-4:])) // RFC 1952: ISIZE
		builds = append(builds, Build{
			Arch: arch, Size: int64(size), SHA256: hashes[name], Gzip: packed, GzipSHA256: hashes[name+".gz"],
		})
	}
	return builds
}

// sentSize is the number of bytes to send, packed if the host can unpack them.
func (b Build) sentSize(packed bool) int64 {
	if packed && b.Gzip != "" {
		return int64(len(b.Gzip))
	}
	return b.Size
}

// open returns the bytes to send.
func (b Build) open(packed bool) (io.ReadCloser, error) {
	switch {
	case b.Gzip == "":
		return os.Open(b.Path)
	case packed:
		return io.NopCloser(strings.NewReader(b.Gzip)), nil
	}
	return gzip.NewReader(strings.NewReader(b.Gzip))
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

// fileSet is the content of one directory on a host. The content determines its key.
type fileSet struct {
	key   string // the directory's name
	files []file
}

func newFileSet(version string, files []file) fileSet {
	hash := sha256.New()
	for _, f := range files {
		fmt.Fprintf(hash, "%s %x\n", f.name, f.SHA256)
	}
	return fileSet{key: dirName(version) + "-" + hex.EncodeToString(hash.Sum(nil)[:8]), files: files}
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

// list returns the files in the form that the script reads, the program itself last.
func (s fileSet) list() string {
	words := make([]string, len(s.files))
	for i, f := range s.files {
		words[i] = fmt.Sprintf("%s:%d:%x", f.name, f.Size, f.SHA256)
		if f.Gzip != "" {
			words[i] += fmt.Sprintf(":%d:%x", len(f.Gzip), f.GzipSHA256)
		}
	}
	return strings.Join(words, " ")
}
