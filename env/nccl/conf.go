package nccl

import (
	"bytes"
	"path"
	"strings"
)

// Setting is a line of a configuration file that takes effect.
type Setting struct {
	Name, Value string
	// Line counts from 1.
	Line int
}

// The sizes of the buffers in which NCCL reads a file: what is longer is cut, and the
// rest of a line counts as another one.
const (
	confLine = 4095
	confText = 1023
)

// ParseConf reads a configuration file as NCCL and RCCL do: NAME=value, one a line,
// and nothing is trimmed. Lines that begin with # and lines without = are nothing; a
// carriage return at the end of a line is not part of the value; blanks around = are
// part of name or value. Of a name that comes twice the first one counts, as the
// library never overwrites what is set: the later ones are not returned.
func ParseConf(text []byte) []Setting {
	var settings []Setting
	seen := make(map[string]bool)
	for number := 1; len(text) > 0; number++ {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		text = rest
		if !ended {
			text = nil
		}
		for first := true; first || len(line) > 0; first = false {
			piece := line[:min(len(line), confLine)]
			line = line[len(piece):]
			name, value, ok := confSetting(piece)
			if ok && !seen[name] {
				seen[name] = true
				settings = append(settings, Setting{name, value, number})
			}
		}
	}
	return settings
}

// confSetting reads one line, of at most confLine bytes. It ends at a NUL, for C.
func confSetting(line []byte) (name, value string, ok bool) {
	if end := bytes.IndexByte(line, 0); end >= 0 {
		line = line[:end]
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) == 0 || line[0] == '#' {
		return "", "", false
	}
	before, after, found := strings.Cut(string(line), "=")
	if !found || before == "" { // setenv refuses an empty name
		return "", "", false
	}
	return before[:min(len(before), confText)], after[:min(len(after), confText)], true
}

// ConfFiles returns the files that the library of a kind reads, those that count
// first before the others: the user's own, then the host's. home is the user's home
// folder, "" where there is none. RCCL's own NCCL_CONF_FILE came later than NCCL's
// (2.23), and it is taken for both.
func ConfFiles(kind Library, getenv func(string) string, home string) []string {
	name := strings.ToLower(string(kind)) + ".conf"
	var files []string
	if chosen := getenv("NCCL_CONF_FILE"); chosen != "" {
		files = append(files, chosen)
	} else if home != "" {
		files = append(files, path.Join(home, "."+name))
	}
	return append(files, "/etc/"+name)
}
