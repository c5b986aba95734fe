package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/kernel"
)

// StartError reports why a rank could not be started.
type StartError struct {
	ID    int
	Op    string // failed operation: "exec", "chdir", "clone", …
	Path  string // file of the operation, or ""
	Err   error  // a syscall.Errno, or wraps one
	Cause string // of Err, with a remedy, or ""
}

// Error returns one line: operation, error and cause.
func (e *StartError) Error() string {
	text := fmt.Sprintf("start rank %d: %s: %v", e.ID, strings.TrimSpace(e.Op+" "+e.Path), e.Err)
	if e.Cause != "" {
		text += ": " + e.Cause
	}
	return text
}

func (e *StartError) Unwrap() error { return e.Err }

// opWatch is the operation of watching a rank's pipes.
const opWatch = "watch its output"

// failure adds the cause to an error of starting r.
func (b *batch) failure(r *rank, op, path string, err error) *StartError {
	e := &StartError{ID: r.ID, Op: op, Path: path, Err: err}
	switch {
	case op == kernel.StepExec.String() && errors.Is(err, syscall.E2BIG):
		e.Cause = b.tooBig(r)
	case op == kernel.StepExec.String():
		e.Cause = execCause(b.fileOf(r), err)
	case op == opWatch && errors.Is(err, syscall.ENOSPC):
		e.Cause = "this user's limit of watched descriptors is reached (sysctl fs.epoll.max_user_watches)"
	default:
		e.Cause = LimitFor(err, len(b.ranks), b.common.perRank())
	}
	return e
}

// Limits of execve's strings in bytes, from the kernel's binfmts.h and exec.c.
const (
	maxArgString = 128 << 10 // MAX_ARG_STRLEN: one string with its NUL, 32 pages
	maxArgTotal  = 6 << 20   // all strings, however large the stack may grow
)

// tooBig explains E2BIG.
func (b *batch) tooBig(r *rank) string {
	argv := r.Argv
	if argv == nil {
		argv = b.common.Argv
	}
	total := 0
	for _, list := range [][]string{argv, b.common.Env, r.Env} {
		for _, s := range list {
			if len(s) >= maxArgString {
				return "the string " + abridged(s) + " has " + strconv.Itoa(len(s)) +
					" bytes, and the kernel's limit is below " + strconv.Itoa(maxArgString)
			}
		}
		total += size(list) + 8*len(list)
	}
	var stack unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_STACK, &stack)
	return "arguments and environment have " + strconv.Itoa(total) + " bytes, and the kernel's limit is " +
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

// fileOf returns the path of r's program relative to this process's working directory.
func (b *batch) fileOf(r *rank) string {
	path := r.program(b)
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.Dir, path)
}

// execCause explains why execve failed, if the error alone does not.
func execCause(path string, err error) string {
	info, statErr := os.Stat(path)
	switch {
	case errors.Is(err, syscall.ENOENT) && statErr == nil:
		return missingInterpreter(path)
	case errors.Is(err, syscall.ENOEXEC):
		return "it is not a program for this machine and has no #! line"
	case errors.Is(err, syscall.EACCES) && statErr == nil && info.IsDir():
		return "it is a directory"
	case errors.Is(err, syscall.EACCES) && statErr == nil && info.Mode()&0o111 == 0:
		return "it is not executable (chmod +x FILE)"
	}
	return LimitFor(err, 1, DescriptorsPerRank(false))
}

// missingInterpreter explains ENOENT for a file that exists.
func missingInterpreter(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256) // BINPRM_BUF_SIZE: what the kernel reads
	n, _ := io.ReadFull(f, head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	if name, ok := strings.CutPrefix(line, "#!"); ok {
		name, _, _ = strings.Cut(strings.TrimSpace(name), " ")
		return "the file exists, but the interpreter in its first line does not: " + strconv.Quote(name)
	}
	return "the file exists, but the dynamic loader it was linked for does not"
}
