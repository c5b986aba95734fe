package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"gorun/internal/shellwords"
	"gorun/launcher/job"
)

// sourceError is the error of a file that gorun explain was given and cannot read.
func sourceError(format string, args ...any) error {
	return failure{job.ExitUsage, fmt.Sprintf(format, args...)}
}

// insteadOfFile is the way out for who meant something else.
const insteadOfFile = "gorun explain FILE reads a log, gorun explain - standard input, gorun explain 'TEXT' explains " +
	"a text"

// noFile is the error of a word that looks like a file's name and is none that can be read; nil where it may be a text.
func noFile(word string, err error) error {
	switch {
	case !likeAPath(word) || errors.Is(err, syscall.ENAMETOOLONG):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return sourceError("%s: no such file; %s", word, insteadOfFile)
	}
	return sourceError("%s; %s", err, insteadOfFile)
}

// isPath reports whether a word can be nothing but a file's name.
func isPath(word string) bool {
	return slices.ContainsFunc([]string{"./", "../", "/", "~/"}, func(begin string) bool {
		return strings.HasPrefix(word, begin)
	}) && !strings.ContainsAny(word, " \t\n")
}

// likeAPath reports whether a word looks like a file's name, and not like a text.
func likeAPath(word string) bool {
	return isPath(word) || !strings.ContainsAny(word, " \t\n:") &&
		(strings.Contains(word, "/") || slices.Contains([]string{".log", ".out", ".err", ".txt", ".gz", ".zst", ".xz"},
			filepath.Ext(word)))
}

// severalFiles is the error of several words that are all files, which can be read as one.
func severalFiles(words []string) error {
	if len(words) < 2 {
		return nil
	}
	var quoted []string
	for _, word := range words {
		if info, err := os.Stat(word); err != nil || !info.Mode().IsRegular() {
			return nil
		}
		quoted = append(quoted, shellwords.Quote(word))
	}
	return sourceError("one file at a time; all of them: cat %s | gorun explain -", strings.Join(quoted, " "))
}

// openLog opens a file that is to be read as a log.
func openLog(name string) (*os.File, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, sourceError("%s; %s", err, insteadOfFile)
	}
	info, err := file.Stat()
	if err == nil && info.Mode()&os.ModeDevice != 0 && !term.IsTerminal(int(file.Fd())) { // /dev/zero has no end
		_ = file.Close() // nothing was read
		return nil, sourceError("%s is a device; %s", name, insteadOfFile)
	}
	if err == nil && info.IsDir() {
		_ = file.Close() // nothing was read
		return nil, sourceError("%s is a directory: name a file in it, or all of them: cat %s/* | gorun explain -", name,
			strings.TrimRight(shellwords.Quote(name), "/"))
	}
	return file, nil
}

// packers are the programs that make a text of a file, by how such a file begins, and what it is.
var packers = []struct{ begin, what, command string }{
	{"\x1f\x8b", "packed", "gzip -dc"},
	{"\x28\xb5\x2f\xfd", "packed", "zstd -dc"},
	{"\xfd7zXZ\x00", "packed", "xz -dc"},
	{"BZh", "packed", "bzip2 -dc"},
	{"\xff\xfe", "in UTF-16", "iconv -f UTF-16 -t UTF-8"},
	{"\xfe\xff", "in UTF-16", "iconv -f UTF-16 -t UTF-8"},
}

// asText is a reader of a text from its beginning, or an error where it is none.
func asText(r io.Reader, name string) (io.Reader, error) {
	const looked = 8 << 10
	b := bufio.NewReaderSize(r, looked)
	head, _ := b.Peek(looked) // an error comes again
	for _, p := range packers {
		if bytes.HasPrefix(head, []byte(p.begin)) {
			return nil, sourceError("%s is %s: %s %s | gorun explain -", name, p.what, p.command, shellwords.Quote(name))
		}
	}
	if isBinary(head) {
		return nil, sourceError("%s is no text but a binary file; %s", name, insteadOfFile)
	}
	return b, nil
}

// isBinary reports whether bytes are no text. Blocks of zeros alone make none: a log that was cut while a program wrote
// to it has them.
func isBinary(head []byte) bool {
	if bytes.HasPrefix(head, []byte("\x7fELF")) {
		return true
	}
	odd, all := 0, 0
	for len(head) > 0 {
		r, size := utf8.DecodeRune(head)
		head = head[size:]
		switch all++; {
		case r == 0:
			all--
		case r == utf8.RuneError, unicode.IsControl(r) && !strings.ContainsRune("\n\r\t\b\f\x1b\a", r):
			odd++
		}
	}
	return odd*10 > all*3
}
