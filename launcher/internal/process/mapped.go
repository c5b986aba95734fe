package process

import (
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
)

// Mapped returns the name of the first file among those mapped into a process whose
// base name begins with one of the prefixes; "" if there is none, or the process is
// gone or somebody else's.
func Mapped(pid int, prefixes ...string) string {
	maps, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(maps) {
		at := bytes.IndexByte(line, '/')
		if at < 0 {
			continue
		}
		name := path.Base(strings.TrimRight(string(line[at:]), "\n"))
		for _, prefix := range prefixes {
			if strings.HasPrefix(name, prefix) {
				return name
			}
		}
	}
	return ""
}
