// Package program decides how a program is started, by examining the file before any rank exists.
//
// [Resolve] finds the file and the arguments for execve for commands such as `gorun -n 4 trainer`, `gorun train.py`,
// `gorun ./cmd/hello` or `torchrun -m pkg.train`. It refuses a program that cannot start and returns the reason.
// The rules, in this order:
//
//   - A name with a slash is a file, relative to the ranks' working directory or else the launcher's.
//   - A name without a slash is searched for in PATH and then in the working directory. So commands of the shell keep
//     their meaning (`gorun test` is /usr/bin/test), and local files need no `./`. For names that end in .py or .go,
//     the working directory comes first, as for python and go.
//   - An executable runs directly. So does a .py file with a run bit and a #! line. (torchrun ignores both, and so does
//     this package with [spec.StartPython].)
//   - Any other .py file runs by Python with -u: the interpreter set by an option, else the active virtual
//     environment's, else python3 in PATH.
//   - A .go file (with the .go files after it, as in `go run`), or a directory with a Go main package, is built once
//     and then run.
//
// Exit codes are the shells'. 127 means that a required file does not exist: the program, the interpreter on its #!
// line, its loader, python or go. 126 means that it exists but cannot be executed, such as a Go program that does not
// compile.
//
// The package also analyses Python programs: see [AssignsMasterPort].
package program

import (
	"strings"

	"gorun/launcher/internal/spec"
)

// Kind is the kind of a program, as shown in plans.
type Kind string

const (
	// Executable is a file that the kernel executes: a binary, or a script with a #! line.
	Executable Kind = "executable"
	// PythonScript is a file for a Python interpreter.
	PythonScript Kind = "python script"
	// PythonModule is a module for a Python interpreter.
	PythonModule Kind = "python module"
	// GoSource is a Go main package, which must be built first.
	GoSource Kind = "go program"
)

// request is what [Resolve] got.
type request struct {
	spec.Command
	lookup func(name string) string
}

// Resolved is how a program starts.
type Resolved struct {
	// Path is the path for execve in the ranks' working directory; "" with Build, which makes the executable.
	Path string
	// Argv is the argument vector: interpreter and its options, program, arguments.
	Argv []string
	Kind Kind
	// Source is the Python file that runs, as a path from the launcher's working directory; "" if none is known. An
	// executable has one if it is a script, or Python itself (`gorun python train.py`).
	Source string
	// Interpreted: Python or another interpreter runs a file of text.
	Interpreted bool
	// ScriptArg is the index of the program's own arguments in Argv.
	ScriptArg int
	// Build makes the executable of a GoSource; otherwise nil.
	Build *GoBuild
}

// Resolve decides how a program starts. It starts nothing (with one exception: see binfmt.go), and takes a few system
// calls for an ordinary program. lookup returns variables of the environment: PATH, VIRTUAL_ENV, CONDA_PREFIX; "" if
// unset. Every error is an [*Error].
func Resolve(command spec.Command, lookup func(name string) string) (Resolved, error) {
	req := request{command, lookup}
	r, err := req.resolve()
	if err != nil {
		return Resolved{}, err // not a nil *Error as an error
	}
	return r, nil
}

func (req *request) resolve() (Resolved, *Error) {
	if req.Name == "" {
		return Resolved{}, missing(req.Name, "empty program name")
	}
	if err := req.checkDir(); err != nil {
		return Resolved{}, err
	}
	switch req.Start {
	case spec.StartModule:
		return req.module()
	case spec.StartPython:
		return req.pythonOnly()
	case spec.StartExec:
		return req.executableOnly()
	default:
		return req.auto()
	}
}

// auto decides by the type of the file.
func (req *request) auto() (Resolved, *Error) {
	f, err := req.find(req.Name)
	switch {
	case err != nil:
		return Resolved{}, err
	case f.isDir():
		return req.goPackage(f)
	case strings.HasSuffix(req.Name, ".py") && !f.runsItself():
		return req.script(f)
	case strings.HasSuffix(req.Name, ".go") && !f.runsItself():
		return req.goFiles(f)
	}
	return req.executable(f)
}

// executableOnly refuses sources and directories.
func (req *request) executableOnly() (Resolved, *Error) {
	f, err := req.find(req.Name)
	if err != nil {
		return Resolved{}, err
	}
	if f.isDir() {
		return Resolved{}, refused(req.Name, "is a directory")
	}
	return req.executable(f)
}

func (req *request) executable(f file) (Resolved, *Error) {
	if err := req.checkExecutable(req.Name, f, 0); err != nil {
		return Resolved{}, err
	}
	argv0 := f.exec // a path: a program that looks itself up by a bare name would search PATH
	if f.fromPATH {
		argv0 = req.Name
	}
	argv := req.argv(argv0)
	source := req.pythonSource(f)
	return Resolved{
		Path: f.exec, Argv: argv, Kind: Executable, Source: source, ScriptArg: 1,
		Interpreted: source != "" || !f.isCompiled(),
	}, nil
}

// argv returns words with the program's own arguments.
func (req *request) argv(words ...string) []string {
	return append(words[:len(words):len(words)], req.Args...)
}
