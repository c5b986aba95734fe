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

	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/job"
)

// usageError is a mistake on the command line that shows only when the command runs.
func usageError(format string, args ...any) error {
	return exitError{job.ExitUsage, fmt.Sprintf(format, args...)}
}

const explainUsage = "gorun explain FILE reads a log, gorun explain - standard input, gorun explain 'TEXT' explains " +
	"a text"

// missingFile is the error of a word that looks like the name of a file; nil if the word may be a text.
func missingFile(word string, err error) error {
	switch {
	case !looksLikePath(word) || errors.Is(err, syscall.ENAMETOOLONG):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return usageError("%s: no such file; %s", word, explainUsage)
	}
	return usageError("%s; %s", printable.Error(err), explainUsage)
}

// isPath reports whether a word can only be the name of a file.
func isPath(word string) bool {
	return slices.ContainsFunc([]string{"./", "../", "/", "~/"}, func(begin string) bool {
		return strings.HasPrefix(word, begin)
	}) && !strings.ContainsAny(word, " \t\n")
}

// looksLikePath reports whether a word is more likely the name of a file than a text.
func looksLikePath(word string) bool {
	return isPath(word) || !strings.ContainsAny(word, " \t\n:") &&
		(strings.Contains(word, "/") || slices.Contains([]string{".log", ".out", ".err", ".txt", ".gz", ".zst", ".xz"},
			filepath.Ext(word)))
}

// refuseFiles refuses several words that are all files.
func refuseFiles(words []string) error {
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
	return usageError("one file at a time; all of them: cat %s | gorun explain -", strings.Join(quoted, " "))
}

// openLog refuses directories and devices: /dev/zero has no end.
func openLog(name string) (*os.File, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, usageError("%s; %s", printable.Error(err), explainUsage)
	}
	info, err := file.Stat()
	if err == nil && info.Mode()&os.ModeDevice != 0 && !term.IsTerminal(int(file.Fd())) {
		_ = file.Close()
		return nil, usageError("%s is a device; %s", name, explainUsage)
	}
	if err == nil && info.IsDir() {
		_ = file.Close()
		return nil, usageError("%s is a directory: name a file in it, or all of them: cat %s/* | gorun explain -", name,
			strings.TrimRight(shellwords.Quote(name), "/"))
	}
	return file, nil
}

// decoders are programs that convert files to text, by the first bytes of the files.
var decoders = []struct{ magic, what, command string }{
	{"\x1f\x8b", "packed", "gzip -dc"},
	{"\x28\xb5\x2f\xfd", "packed", "zstd -dc"},
	{"\xfd7zXZ\x00", "packed", "xz -dc"},
	{"BZh", "packed", "bzip2 -dc"},
	{"\xff\xfe", "in UTF-16", "iconv -f UTF-16 -t UTF-8"},
	{"\xfe\xff", "in UTF-16", "iconv -f UTF-16 -t UTF-8"},
}

// textReader returns a reader of all of r, or an error if r is not text.
func textReader(r io.Reader, name string) (io.Reader, error) {
	const sample = 8 << 10
	b := bufio.NewReaderSize(r, sample)
	head, _ := b.Peek(sample) // the reader gets the error again
	for _, p := range decoders {
		if bytes.HasPrefix(head, []byte(p.magic)) {
			return nil, usageError("%s is %s: %s %s | gorun explain -", name, p.what, p.command, shellwords.Quote(name))
		}
	}
	if isBinary(head) {
		return nil, usageError("%s is a binary file, not text; %s", name, explainUsage)
	}
	return b, nil
}

// isBinary reports whether the beginning of a file is not text. Zeros do not count: a log that was truncated while a
// program wrote to it has blocks of them.
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
