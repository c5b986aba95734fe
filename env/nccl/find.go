package nccl

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// The file names under which programs load the libraries, versioned names first.
var libraryFiles = []string{"libnccl.so.2", "librccl.so.1", "libnccl.so", "librccl.so"}

// usualFolders are the loader's default directories and ROCm's.
var usualFolders = []string{
	"/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
	"/usr/lib/aarch64-linux-gnu",
	"/lib", "/usr/lib", "/usr/local/lib", "/opt/rocm/lib",
}

// FindLibraries returns the files of NCCL and RCCL that a program would load, the preferred one first, without
// starting the program. It looks in LD_PRELOAD, PyTorch's packages, LD_LIBRARY_PATH, the loader's cache, and
// the usual directories. pythonPrefix is the sys.prefix of the Python environment, or "" for other programs.
// PyTorch's wheels name their own directories with DT_RPATH, which precedes LD_LIBRARY_PATH. root is the
// host's file system.
func FindLibraries(root fs.FS, getenv func(string) string, pythonPrefix string) []string {
	f := finder{root: root}
	var searched []string
	for folder := range strings.FieldsFuncSeq(getenv("LD_LIBRARY_PATH"), isOf(":;")) {
		searched = append(searched, folder)
	}
	for file := range strings.FieldsFuncSeq(getenv("LD_PRELOAD"), isOf(": ")) {
		switch {
		case !slices.Contains(libraryFiles, unversioned(path.Base(file))):
		case strings.Contains(file, "/"):
			f.add(file)
		default:
			f.addFrom(searched, file)
		}
	}
	if pythonPrefix != "" {
		f.addPython(pythonPrefix)
		f.addFrom([]string{path.Join(pythonPrefix, "lib")}, libraryFiles...) // conda
	}
	f.addFrom(searched, libraryFiles...)
	if cache, err := fs.ReadFile(root, "etc/ld.so.cache"); err == nil {
		for _, file := range inCache(cache) {
			f.add(file)
		}
	}
	f.addFrom(usualFolders, libraryFiles...)
	return f.files
}

// isOf returns a function for strings.FieldsFunc that splits at any of the separators.
func isOf(separators string) func(rune) bool {
	return func(r rune) bool { return strings.ContainsRune(separators, r) }
}

// unversioned returns libnccl.so.2 for libnccl.so.2.30.7.
func unversioned(file string) string {
	name, version, found := strings.Cut(file, ".so.")
	if !found {
		return file
	}
	major, _, _ := strings.Cut(version, ".")
	return name + ".so." + major
}

// finder collects existing files without duplicates.
type finder struct {
	root  fs.FS
	files []string
}

func (f *finder) add(file string) {
	if !path.IsAbs(file) {
		return // relative to the program's working directory, which is unknown
	}
	file = path.Clean(file)
	info, err := fs.Stat(f.root, file[1:])
	if err == nil && info.Mode().IsRegular() && !slices.Contains(f.files, file) {
		f.files = append(f.files, file)
	}
}

func (f *finder) addFrom(folders []string, names ...string) {
	for _, folder := range folders {
		for _, name := range names {
			f.add(path.Join(folder, name))
		}
	}
}

// addPython adds the libraries of Python wheels. lib64 is a link to lib, or lib does not exist.
func (f *finder) addPython(prefix string) {
	before := len(f.files)
	for _, lib := range []string{"lib", "lib64"} {
		for _, packages := range []string{"site-packages", "dist-packages"} {
			for _, file := range []string{
				"nvidia/nccl/lib/libnccl.so.2", "nvidia/*/lib/libnccl.so.2",
				"torch/lib/libnccl.so*", "torch/lib/librccl.so*",
			} {
				f.glob(prefix, path.Join(lib, "python3*", packages, file))
			}
		}
		if len(f.files) > before {
			return
		}
	}
}

func (f *finder) glob(dir, pattern string) {
	place, err := fs.Sub(f.root, strings.TrimPrefix(path.Clean(dir), "/"))
	if err != nil || !path.IsAbs(dir) {
		return
	}
	found, _ := fs.Glob(struct{ fs.FS }{place}, pattern) // the pattern is good
	for _, file := range found {
		f.add(path.Join(dir, file))
	}
}

// inCache returns the library files in the loader's cache, ldconfig's /etc/ld.so.cache. Its newer format is:
// "glibc-ld.so.cache1.1", the number of entries (4 bytes), the size of the strings (4), 20 bytes more. Then
// come entries of 24 bytes: flags (4), the offset of the name (4), the offset of the path (4), 12 bytes more.
// Offsets count from the first byte of the format; an older format may precede it.
func inCache(cache []byte) (files []string) {
	const header, entry = 48, 24
	start := bytes.Index(cache, []byte("glibc-ld.so.cache1.1"))
	if start < 0 || len(cache)-start < header {
		return nil
	}
	cache = cache[start:]
	order := byteOrder(cache)
	for i := range int64(order.Uint32(cache[20:])) {
		at := header + i*entry
		if at+entry > int64(len(cache)) {
			break
		}
		name, file := cacheText(cache, order.Uint32(cache[at+4:])), cacheText(cache, order.Uint32(cache[at+8:]))
		if slices.Contains(libraryFiles, name) {
			files = append(files, file)
		}
	}
	return files
}

// byteOrder is the byte order of the host that wrote the cache: the number of entries is small.
func byteOrder(cache []byte) binary.ByteOrder {
	if binary.LittleEndian.Uint32(cache[20:]) > 1<<24 {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// cacheText returns the NUL-terminated string at an offset.
func cacheText(cache []byte, at uint32) string {
	if int64(at) >= int64(len(cache)) {
		return ""
	}
	text := cache[at:]
	if end := bytes.IndexByte(text, 0); end >= 0 {
		return string(text[:end])
	}
	return ""
}
