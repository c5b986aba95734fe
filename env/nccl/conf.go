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

// The sizes of the buffers into which NCCL reads a file. NCCL splits longer lines.
const (
	confLine = 4095
	confText = 1023
)

// parseConf parses a configuration file as NCCL and RCCL do: one NAME=value a line, without trimming. Lines
// that begin with # and lines without = are ignored. A carriage return at the end of a line is not part of the
// value. Blanks around = are part of the name or the value. parseConf omits repeated names: the library never
// overwrites a variable that is set.
func parseConf(text []byte) (settings []Assignment) {
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
				settings = append(settings, Assignment{Name: name, Value: value, Line: number})
			}
		}
	}
	return settings
}

// confSetting parses one line of at most confLine bytes. Like a C string, the line ends at a NUL.
func confSetting(line []byte) (name, value string, ok bool) {
	if end := bytes.IndexByte(line, 0); end >= 0 {
		line = line[:end]
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) == 0 || line[0] == '#' {
		return "", "", false
	}
	before, after, found := strings.Cut(string(line), "=")
	if !found || before == "" { // setenv rejects an empty name
		return "", "", false
	}
	return before[:min(len(before), confText)], after[:min(len(after), confText)], true
}

// confLimit is the number of bytes to read of a configuration file at most.
const confLimit = 64 << 10

// ReadConf reads a library's configuration files in order of precedence: the file of NCCL_CONF_FILE or the
// user's own, then the host's. root is the host's file system. ReadConf skips files that do not exist or are
// not regular, since opening a pipe can block. dir returns the directory to which a relative NCCL_CONF_FILE
// refers; it is nil if that is unknown. RCCL reads NCCL_CONF_FILE since its version 2.23 only; ReadConf always
// does. ConfFile.Path and the errors have the paths as the library has them.
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
