package program

import (
	"path"
	"strings"

	"gorun/launcher/internal/spec"

	"golang.org/x/sys/unix"
)

// pythonOnly resolves a program that always runs by Python.
func (req *request) pythonOnly() (Resolved, *Error) {
	f, err := req.findFile(req.Name) // Python does not search PATH for a script
	switch {
	case err != nil:
		return Resolved{}, err
	case f.isDir():
		return req.pythonDirectory(f)
	case f.isCompiled():
		return Resolved{}, refused(req.Name, "is a compiled program, not a Python script").
			hint("add `--no-python` to run it as it is")
	}
	return req.script(f)
}

// pythonDirectory runs DIR/__main__.py, as python DIR does.
func (req *request) pythonDirectory(f file) (Resolved, *Error) {
	main := file{exec: f.exec, open: f.open + "/__main__.py"}
	if main.stat() != nil {
		return Resolved{}, refused(req.Name, "is a directory without a __main__.py")
	}
	return req.script(main)
}

// script resolves a file that Python runs.
func (req *request) script(f file) (Resolved, *Error) {
	if unix.Access(f.open, unix.R_OK) != nil {
		return Resolved{}, refused(req.Name, "permission denied: Python could not read it")
	}
	python, err := req.interpreter(req.Name)
	if err != nil {
		return Resolved{}, err
	}
	argv := req.argv(python, "-u", req.scriptName(f))
	return Resolved{Path: python, Argv: argv, Kind: PythonScript, Source: f.open, ScriptArg: 3, Interpreted: true}, nil
}

// scriptName returns Python's argument, which becomes sys.argv[0]. It is the name from the command line if that leads
// to the file.
func (req *request) scriptName(f file) string {
	if f.exec == "./"+req.Name && !strings.HasPrefix(req.Name, "-") {
		return req.Name
	}
	return f.exec
}

// module resolves a Python module.
func (req *request) module() (Resolved, *Error) {
	base, isFile := strings.CutSuffix(req.Name, ".py")
	switch {
	case strings.Contains(req.Name, "/"):
		return Resolved{}, missing(req.Name, "is a path, not the name of a Python module (-m takes package.module)").
			hint("leave out `-m` to run a file")
	case isFile && req.exists(req.Name):
		return Resolved{}, missing(req.Name, "is a file, not the name of a Python module").
			hint("did you mean `-m " + word(base) + "`?")
	}
	python, err := req.interpreter("-m " + req.Name)
	if err != nil {
		return Resolved{}, err
	}
	argv := req.argv(python, "-u", "-m", req.Name)
	return Resolved{
		Path: python, Argv: argv, Kind: PythonModule, Source: req.moduleSource(req.Name), ScriptArg: 4, Interpreted: true,
	}, nil
}

// moduleSource returns the file of a module below the working directory, which comes first in Python's search path with
// -m; "" if it is elsewhere. A package hides a module of the same name, and runs its __main__.
func (req *request) moduleSource(name string) string {
	base := strings.ReplaceAll(name, ".", "/")
	names := []string{base + ".py", base + "/__main__.py"}
	if req.exists(base + "/__init__.py") {
		names = names[1:]
	}
	for _, name := range names {
		if req.exists(name) {
			return req.local(name).open
		}
	}
	return ""
}

func (req *request) exists(name string) bool {
	f := req.local(name)
	return f.stat() == nil && f.mode.IsRegular()
}

// interpreter finds the Python that runs a program.
func (req *request) interpreter(program string) (string, *Error) {
	switch {
	case req.Interpreter != "":
		return req.usable(program, req.Interpreter)
	case req.hasPython("VIRTUAL_ENV"):
		return req.usable(program, req.lookup("VIRTUAL_ENV")+"/bin/python")
	case req.hasPython("CONDA_PREFIX"):
		return req.usable(program, req.lookup("CONDA_PREFIX")+"/bin/python")
	}
	return req.usable(program, "python3")
}

// Python finds the interpreter for a script: the user's choice, or one of the environment.
func Python(choice string, lookup func(name string) string) (string, error) {
	req := request{spec.Command{Interpreter: choice}, lookup}
	path, err := req.interpreter("python")
	if err != nil {
		return "", err
	}
	return path, nil
}

// hasPython reports whether a variable names an environment with an interpreter. A broken link counts: the user's
// packages are in that environment.
func (req *request) hasPython(variable string) bool {
	prefix := req.lookup(variable)
	if prefix == "" {
		return false
	}
	f := req.local(prefix + "/bin/python")
	return f.stat() == nil || isLink(f.open)
}

// usable returns the path of an interpreter, or the reason why it cannot run a program.
func (req *request) usable(program, python string) (string, *Error) {
	f, err := req.findPython(python)
	if err == nil {
		err = req.checkExecutable(python, f, 0)
	}
	if err != nil {
		return "", err.about(program, "its interpreter")
	}
	return f.exec, nil
}

func (req *request) findPython(name string) (file, *Error) {
	if strings.Contains(name, "/") {
		return req.findFile(name)
	}
	f, found := req.searchPATH(name)
	if !found {
		return file{}, missing(name, "not found in PATH")
	}
	return f, nil
}

// pythonSource returns the Python file that an executable runs, if known: a script by its ending, or the file in
// `python [options] x.py` and `python -m module`.
func (req *request) pythonSource(f file) string {
	switch {
	case strings.HasSuffix(f.exec, ".py"):
		return f.open
	case !isPython(path.Base(f.exec)):
		return ""
	}
	return req.sourceInArgs(req.Args)
}

// sourceInArgs returns the file that Python runs with these arguments.
func (req *request) sourceInArgs(args []string) string {
	for len(args) > 0 {
		option, value := args[0], args[1:]
		switch {
		case !strings.HasPrefix(option, "-"):
			if req.exists(option) {
				return req.local(option).open
			}
			return ""
		case option == "-m" && len(value) > 0:
			return req.moduleSource(value[0])
		case (option == "-X" || option == "-W") && len(value) > 0:
			value = value[1:]
		case option == "-" || strings.Trim(option[1:], pythonFlags) != "":
			return "" // -c, standard input, or something newer than this list
		}
		args = value
	}
	return ""
}

// pythonFlags are Python's one-letter options without a value.
const pythonFlags = "bBdEhiIOPqRsSuvVx"

// isPython reports whether a command is named python, python3, python3.12 and so on.
func isPython(command string) bool {
	version, ok := strings.CutPrefix(command, "python")
	return ok && strings.Trim(version, "0123456789.") == ""
}
