package process

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/kernel"
)

// StartError says why a rank could not be started.
type StartError struct {
	ID   int
	Op   string // what failed: "exec", "chdir", "clone", …
	Path string // the file of it, or ""
	Err  error  // a syscall.Errno, or wraps one
	Hint string // what is behind it and the way out, or ""
}

// Error is one line: what, why, and what to do about it.
func (e *StartError) Error() string {
	var b strings.Builder
	b.WriteString("start rank ")
	b.WriteString(strconv.Itoa(e.ID))
	b.WriteString(": ")
	b.WriteString(e.Op)
	if e.Path != "" {
		b.WriteString(" ")
		b.WriteString(e.Path)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	if e.Hint != "" {
		b.WriteString(": ")
		b.WriteString(e.Hint)
	}
	return b.String()
}

func (e *StartError) Unwrap() error { return e.Err }

// failure makes the StartError of r.
func (j *start) failure(r *rank, op, path string, err error) *StartError {
	e := &StartError{ID: r.ID, Op: op, Path: path, Err: err}
	switch {
	case op == kernel.StepExec.String() && errors.Is(err, syscall.E2BIG):
		e.Hint = j.tooBig(r)
	case op == kernel.StepExec.String():
		e.Hint = execHint(j.fileOf(r), err)
	default:
		e.Hint = LimitFor(err, len(j.ranks), j.common.perRank())
	}
	return e
}

// The kernel's limits of what exec passes on, from binfmts.h and exec.c.
const (
	maxArgString = 128 << 10 // of one string with its zero byte: 32 pages
	maxArgTotal  = 6 << 20   // of all, however large the stack may grow
)

// tooBig names what makes r's arguments and environment too big for exec.
func (j *start) tooBig(r *rank) string {
	argv := r.Argv
	if argv == nil {
		argv = j.common.Argv
	}
	total := 0
	for _, list := range [][]string{argv, j.common.Env, r.Env} {
		for _, s := range list {
			if len(s) >= maxArgString {
				return "the one string " + abridged(s) + " has " + strconv.Itoa(len(s)) +
					" bytes, the kernel takes less than " + strconv.Itoa(maxArgString)
			}
		}
		total += size(list) + 8*len(list)
	}
	var stack unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_STACK, &stack)
	return "arguments and environment have " + strconv.Itoa(total) + " bytes, the kernel takes " +
		strconv.FormatUint(min(stack.Cur/4, maxArgTotal), 10) + ", a quarter of the stack's limit (ulimit -s)"
}

// abridged quotes the beginning of s.
func abridged(s string) string {
	const most = 24
	if name, _, ok := strings.Cut(s[:min(len(s), 4*most)], "="); ok {
		return name + "=…"
	}
	return strconv.Quote(s[:min(len(s), most)]) + "…"
}

// fileOf returns the path of r's program as seen from here.
func (j *start) fileOf(r *rank) string {
	path := r.program(j)
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.Dir, path)
}

// execHint says why exec refused a file, where its error alone doesn't.
func execHint(path string, err error) string {
	info, statErr := os.Stat(path)
	switch {
	case errors.Is(err, syscall.ENOENT) && statErr == nil:
		return missingInterpreter(path)
	case errors.Is(err, syscall.ENOEXEC):
		return "it is no program for this machine and has no #! line"
	case errors.Is(err, syscall.EACCES) && statErr == nil && info.IsDir():
		return "it is a directory"
	case errors.Is(err, syscall.EACCES) && statErr == nil && info.Mode()&0o111 == 0:
		return "it may not be executed: chmod +x it"
	}
	return LimitFor(err, 1, PerRank)
}

// missingInterpreter explains "no such file" about a file that is there.
func missingInterpreter(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256) // as much as the kernel looks at
	n, _ := io.ReadFull(f, head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	if name, ok := strings.CutPrefix(line, "#!"); ok {
		name, _, _ = strings.Cut(strings.TrimSpace(name), " ")
		return "the file is there, but the interpreter of its first line is not: " + strconv.Quote(name)
	}
	return "the file is there, but not the dynamic loader that it was linked for"
}
