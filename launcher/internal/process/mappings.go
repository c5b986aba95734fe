package process

import (
	"bytes"
	"iter"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Mapped returns the base name of the first file mapped into a process whose base name has one of the prefixes; "" if
// none exists, or the process cannot be read.
func Mapped(pid int, prefixes ...string) string {
	if file := MappedPath(pid, prefixes...); file != "" {
		return path.Base(file)
	}
	return ""
}

// MappedPath is Mapped, but returns the path as the process sees it.
func MappedPath(pid int, prefixes ...string) string {
	for file := range mappings(pid) {
		if hasAnyPrefix(path.Base(file), prefixes) {
			return file
		}
	}
	return ""
}

// MappedIn returns the paths of the files mapped into a process that are below dir (with a trailing slash), whose name
// relative to it has one of the prefixes, and that still exist.
func MappedIn(pid int, dir string, prefixes ...string) (files []string) {
	for file := range mappings(pid) {
		name, in := strings.CutPrefix(file, dir)
		if in && hasAnyPrefix(name, prefixes) && !strings.HasSuffix(name, " (deleted)") && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

func hasAnyPrefix(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// mappings iterates over the paths in /proc/PID/maps, with repetitions.
func mappings(pid int) iter.Seq[string] {
	return func(yield func(string) bool) {
		maps, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
		for line := range bytes.Lines(maps) {
			at := bytes.IndexByte(line, '/')
			if at >= 0 && !yield(strings.TrimRight(string(line[at:]), "\n")) {
				return
			}
		}
	}
}
