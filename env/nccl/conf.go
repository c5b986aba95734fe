package nccl

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
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

// confLimit bounds how much of a configuration file is read, in bytes.
const confLimit = 64 << 10

// ReadConf reads the configuration files of a library of a kind on the host whose files are root's, in the order of
// their precedence: the file of NCCL_CONF_FILE or the user's own, then the host's. It leaves out files that do not
// exist or are not regular: opening a pipe may block. dir returns the directory that a relative NCCL_CONF_FILE starts
// from; nil if it is unknown. RCCL reads NCCL_CONF_FILE since its version 2.23 only; ReadConf always does.
// ConfFile.Path and the errors have the paths as the library has them.
func ReadConf(root fs.FS, kind Library, getenv func(string) string, dir func() string,
) (files []ConfFile, errs []*fs.PathError) {
	for _, name := range confFiles(kind, getenv) {
		file := name
		if !path.IsAbs(file) && dir != nil {
			file = path.Join(dir(), file)
		}
		if !path.IsAbs(file) {
			continue
		}
		text, err := readConf(root, path.Clean(file)[1:])
		switch {
		case err == nil:
			files = append(files, ConfFile{Path: name, Text: text})
		case !errors.Is(err, fs.ErrNotExist):
			if inner, ok := errors.AsType[*fs.PathError](err); ok {
				err = inner.Err
			}
			errs = append(errs, &fs.PathError{Op: "read", Path: name, Err: err})
		}
	}
	return files, errs
}

func confFiles(kind Library, getenv func(string) string) (files []string) {
	name := strings.ToLower(string(kind)) + ".conf"
	if chosen := getenv("NCCL_CONF_FILE"); chosen != "" {
		files = append(files, chosen)
	} else if home := getenv("HOME"); home != "" {
		files = append(files, path.Join(home, "."+name))
	}
	return append(files, "/etc/"+name)
}

func readConf(root fs.FS, name string) (string, error) {
	if info, err := fs.Stat(root, name); err != nil || !info.Mode().IsRegular() {
		return "", cmp.Or(err, fs.ErrNotExist)
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, confLimit))
	return string(text), err
}
