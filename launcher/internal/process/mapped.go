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

// Mapped returns the name of the first file among those mapped into a process whose
// base name begins with one of the prefixes; "" if there is none, or the process is
// gone or somebody else's.
func Mapped(pid int, prefixes ...string) string {
	if file := MappedPath(pid, prefixes...); file != "" {
		return path.Base(file)
	}
	return ""
}

// MappedPath is Mapped with the file's directory, as the process itself names it.
func MappedPath(pid int, prefixes ...string) string {
	for file := range mappings(pid) {
		if beginsWith(path.Base(file), prefixes) {
			return file
		}
	}
	return ""
}

// MappedIn returns the paths of files mapped into a process that are in a directory (with a
// slash at its end), have a name there that begins with one of the prefixes, and were not
// removed.
func MappedIn(pid int, dir string, prefixes ...string) (files []string) {
	for file := range mappings(pid) {
		name, in := strings.CutPrefix(file, dir)
		if in && beginsWith(name, prefixes) && !strings.HasSuffix(name, " (deleted)") && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

func beginsWith(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// mappings are the paths of the files that are mapped into a process, as often as they are.
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
