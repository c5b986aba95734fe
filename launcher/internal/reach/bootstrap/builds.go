package bootstrap

import (
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Program is gorun in the available builds, one per architecture.
type Program struct {
	// Version is part of a copy's name on the host, for people; the hash of its content identifies it.
	Version string
	Builds  []Build
}

// Build is one executable file.
type Build struct {
	Arch   string // a GOARCH: amd64, arm64
	Path   string // the local file
	Size   int64  // bytes
	SHA256 [sha256.Size]byte
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

// FindBuilds finds the builds that can be copied: this executable, and the static builds gorun-linux-amd64 and
// gorun-linux-arm64 beside it or in ../build (`make static`). A static build replaces a dynamic executable of its
// architecture.
func FindBuilds(executable, version string) (Program, error) {
	own, err := ReadBuild(executable)
	if err != nil {
		return Program{}, fmt.Errorf("read the program to copy: %w", err)
	}
	p := Program{Version: version}
	for _, arch := range []string{"amd64", "arm64"} {
		if arch == own.Arch && own.Loader == "" {
			p.Builds = append(p.Builds, own)
			continue
		}
		beside, err := findBeside(executable, "gorun-linux-"+arch)
		switch {
		case err == nil && beside.Arch == arch:
			p.Builds = append(p.Builds, beside)
		case err != nil && !errors.Is(err, os.ErrNotExist):
			return Program{}, err
		case arch == own.Arch:
			p.Builds = append(p.Builds, own)
		}
	}
	return p, nil
}

// findBeside reads the build with a name beside the executable or in ../build.
func findBeside(executable, name string) (Build, error) {
	if real, err := filepath.EvalSymlinks(executable); err == nil {
		executable = real
	}
	dir := filepath.Dir(executable)
	b, err := ReadBuild(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		b, err = ReadBuild(filepath.Join(dir, "..", "build", name))
	}
	return b, err
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

func (s fileSet) size() (n int64) {
	for _, f := range s.files {
		n += f.Size
	}
	return n
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

// list returns the files in the form that the script reads: name:hash:size, the program itself last.
func (s fileSet) list() string {
	words := make([]string, len(s.files))
	for i, f := range s.files {
		words[i] = fmt.Sprintf("%s:%x:%d", f.name, f.SHA256, f.Size)
	}
	return strings.Join(words, " ")
}
