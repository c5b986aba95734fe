// Package program decides how a program is started, from the file itself and
// before any rank exists.
//
// A user says `gorun -n 4 trainer`, `gorun train.py`, `gorun ./cmd/hello` or
// `torchrun -m pkg.train`. [Resolve] finds the file that is meant, decides what
// execve gets for it, and refuses what cannot start in one sentence that names
// the program and the reason. The rules, in the order in which they apply:
//
//   - A name with a slash is that file, seen from the ranks' working directory
//     or, failing that, from the launcher's own.
//   - A name without one is searched in PATH and then in the working directory:
//     what a shell would run keeps its meaning (`gorun test` is /usr/bin/test),
//     and `./` need not be typed for what only stands here. Names that end in
//     .py or .go are sources: the working directory comes first for them, as it
//     does for python and go.
//   - An executable runs as it is. So does a .py file with a run bit and a #!
//     line: its author said what runs it. (torchrun ignores both; with
//     [spec.StartPython] this package does too.)
//   - Another .py file runs by Python with -u: by the interpreter that the user
//     named, else the active virtual environment's, else python3 in PATH.
//   - A .go file (with the .go files that follow it, as in `go run`), or a
//     directory that holds a Go main package, is built once and then run.
//
// Exit codes are the shells': 127 when a file that is needed does not exist (the
// program, the interpreter on its #! line, its loader, python, go), 126 when it is
// there but cannot be executed, which includes a Go program that does not compile.
//
// The package also reads a Python program's text for one question:
// [AssignsMasterPort].
package program

import (
	"strings"

	"gorun/launcher/internal/spec"
)

// Kind is what a program turned out to be, as plans name it.
type Kind string

const (
	// Executable is a file that the kernel executes: a binary, or a script with
	// its interpreter's name on the first line.
	Executable Kind = "executable"
	// PythonScript is a file run by a Python interpreter.
	PythonScript Kind = "python script"
	// PythonModule is a module run by a Python interpreter.
	PythonModule Kind = "python module"
	// GoSource is a Go main package, which has to be built first.
	GoSource Kind = "go program"
)

// Request is a program as the user asked for it.
type Request struct {
	// Name is what was typed: a file, a name in PATH, a module with spec.StartModule.
	Name string
	// Args are the program's own arguments.
	Args  []string
	Start spec.Start
	// Interpreter is the interpreter that the user named, a path or a name in PATH; ""
	// finds one.
	Interpreter string
	// Dir is the ranks' working directory; "" is the launcher's own.
	Dir string
	// Path are directories to look in before those of PATH, with colons between them.
	Path string
	// Lookup reads the environment by which programs are found: PATH, VIRTUAL_ENV,
	// CONDA_PREFIX. Unset is "". Nil is an empty environment.
	Lookup func(name string) string
}

// Resolved is how a program starts.
type Resolved struct {
	// Path is what execve gets in the ranks' working directory; "" with Build,
	// which makes the file that is executed.
	Path string
	// Argv is the argument vector: interpreter and its options, program, arguments.
	Argv []string
	Kind Kind
	// Source is the Python file that is run, as a path from the launcher's own working
	// directory; "" if there is none or it is not known which. An executable has one
	// too if it is a script, or Python itself (`gorun python train.py`).
	Source string
	// ScriptArg is the index in Argv at which the program's own arguments begin.
	ScriptArg int
	// Build makes the executable of a GoSource; nil for all else.
	Build *GoBuild
}

// Resolve decides how the wished program starts. It starts nothing (but for one
// doubt: see foreign.go) and costs an ordinary program a few system calls. Every
// error is an [*Error].
func Resolve(w Request) (Resolved, error) {
	if w.Lookup == nil {
		w.Lookup = func(string) string { return "" }
	}
	r, err := w.resolve()
	if err != nil {
		return Resolved{}, err // a typed nil must not become an error
	}
	return r, nil
}

func (w *Request) resolve() (Resolved, *Error) {
	if w.Name == "" {
		return Resolved{}, missing(w.Name, "the program's name is empty")
	}
	if err := w.checkDir(); err != nil {
		return Resolved{}, err
	}
	switch w.Start {
	case spec.StartModule:
		return w.module()
	case spec.StartPython:
		return w.pythonOnly()
	case spec.StartExec:
		return w.executableOnly()
	default:
		return w.auto()
	}
}

// auto decides from the file.
func (w *Request) auto() (Resolved, *Error) {
	f, err := w.find(w.Name)
	switch {
	case err != nil:
		return Resolved{}, err
	case f.isDir():
		return w.goPackage(f)
	case strings.HasSuffix(w.Name, ".py") && !f.runsItself():
		return w.script(f)
	case strings.HasSuffix(w.Name, ".go") && !f.runsItself():
		return w.goFiles(f)
	}
	return w.executable(f)
}

// executableOnly is a program that is executed as it is or not at all.
func (w *Request) executableOnly() (Resolved, *Error) {
	f, err := w.find(w.Name)
	if err != nil {
		return Resolved{}, err
	}
	if f.isDir() {
		return Resolved{}, refused(w.Name, "is a directory")
	}
	return w.executable(f)
}

func (w *Request) executable(f file) (Resolved, *Error) {
	if err := w.runnable(w.Name, f); err != nil {
		return Resolved{}, err
	}
	argv0 := f.exec // a path: a program that looks for itself by a bare name would search PATH
	if f.fromPATH {
		argv0 = w.Name
	}
	argv := w.argv(argv0)
	return Resolved{Path: f.exec, Argv: argv, Kind: Executable, Source: w.textOf(f), ScriptArg: 1}, nil
}

// argv puts words before the program's own arguments.
func (w *Request) argv(words ...string) []string {
	return append(words[:len(words):len(words)], w.Args...)
}
