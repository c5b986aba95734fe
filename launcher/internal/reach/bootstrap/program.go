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

// Program is gorun in the builds that are at hand, one per architecture.
type Program struct {
	// Version names the copies on the host, for people who look there; their
	// content's hash is what tells them apart.
	Version string
	Builds  []Build
}

// Build is one executable file.
type Build struct {
	Arch   string // as GOARCH says it: amd64, arm64
	Path   string // the file here
	Size   int64  // bytes
	SHA256 [sha256.Size]byte
	// Loader is the dynamic loader that it needs, "" for a static file.
	Loader string
}

// Extra is a file that comes to stand beside gorun, under a name of its own.
type Extra struct {
	Name string // gorun-gpu
	Build
	// If is a path on the host without which the file is not wanted there; "" sends
	// it in any case.
	If string
}

// kernelArch is what the Linux kernel calls an architecture.
var kernelArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

var elfArch = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// FindBuilds says what can be copied: this executable, and the static builds
// gorun-linux-amd64 and gorun-linux-arm64 that lie beside it or in ../build
// (`make static`). Where the executable is no static file and a static one for its
// architecture is at hand, that is taken.
func FindBuilds(executable, version string) (Program, error) {
	own, err := ReadBuild(executable)
	if err != nil {
		return Program{}, fmt.Errorf("reading the program that is to be copied: %w", err)
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

// findBeside reads the build of that name beside the executable or in ../build.
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

// ReadBuild reads what there is to know about an executable file.
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
		return Build{}, fmt.Errorf("%s is no Linux program: %w", path, err)
	}
	if b.Arch = elfArch[image.Machine]; b.Arch == "" {
		return Build{}, fmt.Errorf("%s is built for %s; gorun knows amd64 and arm64", path, image.Machine)
	}
	b.Loader = loader(image)
	return b, nil
}

// loader is the file that the kernel starts instead of the program, to load its
// libraries; "" where it needs none.
func loader(image *elf.File) string {
	for _, segment := range image.Progs {
		if segment.Type == elf.PT_INTERP {
			name, _ := io.ReadAll(io.LimitReader(segment.Open(), 4096))
			return strings.TrimRight(string(name), "\x00")
		}
	}
	return ""
}

// file is what one file of a copy is called there.
type file struct {
	name string
	Build
}

// parcel is what one kind of host gets: files that stand in one directory.
type parcel struct {
	key   string // the directory's name
	arch  string
	files []file
}

// size is the number of bytes to send.
func (p parcel) size() (n int64) {
	for _, f := range p.files {
		n += f.Size
	}
	return n
}

// pack makes a parcel; its name follows from the content of all its files.
func pack(version, arch string, files []file) parcel {
	hash := sha256.New()
	for _, f := range files {
		fmt.Fprintf(hash, "%s %x\n", f.name, f.SHA256)
	}
	return parcel{key: nameable(version) + "-" + hex.EncodeToString(hash.Sum(nil)[:8]), arch: arch, files: files}
}

// nameable is a version as part of a directory's name.
func nameable(version string) string {
	name := strings.Map(func(r rune) rune {
		if plainRune(r) && !strings.ContainsRune("/:=,", r) {
			return r
		}
		return '_'
	}, version)
	return cmp.Or(strings.TrimLeft(name[:min(len(name), 64)], ".-"), "unknown")
}

// list says a parcel's files in the form that the script reads: name:hash:size, the
// program itself last.
func (p parcel) list() string {
	said := make([]string, len(p.files))
	for i, f := range p.files {
		said[i] = fmt.Sprintf("%s:%x:%d", f.name, f.SHA256, f.Size)
	}
	return strings.Join(said, " ")
}
