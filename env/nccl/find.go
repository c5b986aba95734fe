package nccl

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// The names by which programs load the libraries, those with a version first.
var libraryFiles = []string{"libnccl.so.2", "librccl.so.1", "libnccl.so", "librccl.so"}

// usualFolders are those that the loader looks into without a cache, and where ROCm
// is.
var usualFolders = []string{
	"/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
	"/usr/lib/aarch64-linux-gnu",
	"/lib", "/usr/lib", "/usr/local/lib", "/opt/rocm/lib",
}

// FindLibraries returns the files of NCCL and RCCL that a program would load, the
// one that counts first before the others, as far as that can be told without
// starting it: LD_PRELOAD, what PyTorch brings along in the Python environment at
// pythonPrefix (sys.prefix; "" for a program of another kind), LD_LIBRARY_PATH, the
// loader's cache, the usual folders. PyTorch's wheels name their own folders by
// DT_RPATH, which counts before LD_LIBRARY_PATH. root is the host's file system.
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

// isOf is a function for strings.FieldsFunc that splits at each of some characters.
func isOf(separators string) func(rune) bool {
	return func(r rune) bool { return strings.ContainsRune(separators, r) }
}

// unversioned is libnccl.so.2 for libnccl.so.2.30.7.
func unversioned(file string) string {
	name, version, found := strings.Cut(file, ".so.")
	if !found {
		return file
	}
	major, _, _ := strings.Cut(version, ".")
	return name + ".so." + major
}

// finder collects files that there are, each once.
type finder struct {
	root  fs.FS
	files []string
}

func (f *finder) add(file string) {
	if !path.IsAbs(file) {
		return // relative to where the program will run, which is not known
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

// addPython adds what wheels brought along; lib64 is a link to lib, or lib is not there.
func (f *finder) addPython(prefix string) {
	before := len(f.files)
	for _, lib := range []string{"lib", "lib64"} {
		for _, packages := range []string{"site-packages", "dist-packages"} {
			for _, file := range []string{
				"nvidia/nccl/lib/libnccl.so.2", "nvidia/*/lib/libnccl.so.2",
				"torch/lib/libnccl.so*", "torch/lib/librccl.so*",
			} {
				f.glob(path.Join(prefix, lib, "python3*", packages, file))
			}
		}
		if len(f.files) > before {
			return
		}
	}
}

func (f *finder) glob(pattern string) {
	if !path.IsAbs(pattern) {
		return
	}
	found, _ := fs.Glob(f.root, path.Clean(pattern)[1:]) // the only error is a bad pattern, of a folder's odd name
	for _, file := range found {
		f.add("/" + file)
	}
}

// inCache returns the files of the libraries in the loader's cache, ldconfig's
// /etc/ld.so.cache. Its newer format is: "glibc-ld.so.cache1.1", the number of
// entries (4 bytes), the bytes of texts (4), 20 bytes more; then entries of 24 bytes:
// flags (4), where the name stands (4), where the path stands (4), 12 bytes more. Both
// places count from the format's first byte; an older format may stand before it.
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

// byteOrder is that of the host that wrote the cache: the number of entries is small.
func byteOrder(cache []byte) binary.ByteOrder {
	if binary.LittleEndian.Uint32(cache[20:]) > 1<<24 {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// cacheText is the text that begins at a place and ends at a NUL.
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
