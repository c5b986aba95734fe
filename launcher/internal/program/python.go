package program

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// pythonOnly is a program that Python runs whatever it looks like.
func (w *Request) pythonOnly() (Resolved, *Error) {
	f, err := w.findFile(w.Name) // Python does not search PATH for a script
	switch {
	case err != nil:
		return Resolved{}, err
	case f.isDir():
		return w.pythonDirectory(f)
	case f.isCompiled():
		return Resolved{}, refused(w.Name, "is a compiled program, not a Python script").
			hint("--no-python runs it as it is")
	}
	return w.script(f)
}

// pythonDirectory runs DIR/__main__.py, as python DIR does.
func (w *Request) pythonDirectory(f file) (Resolved, *Error) {
	main := file{exec: f.exec, open: f.open + "/__main__.py"}
	if main.stat() != nil {
		return Resolved{}, refused(w.Name, "is a directory without a __main__.py")
	}
	return w.script(main)
}

// script runs a file by Python.
func (w *Request) script(f file) (Resolved, *Error) {
	if unix.Access(f.open, unix.R_OK) != nil {
		return Resolved{}, refused(w.Name, "permission denied: Python could not read it")
	}
	python, err := w.interpreter(w.Name)
	if err != nil {
		return Resolved{}, err
	}
	argv := w.argv(python, "-u", w.scriptName(f))
	return Resolved{Path: python, Argv: argv, Kind: PythonScript, Source: f.open, ScriptArg: 3}, nil
}

// scriptName is what Python gets, and shows as sys.argv[0]: the name as it was
// typed where that leads to the file.
func (w *Request) scriptName(f file) string {
	if f.exec == "./"+w.Name && !strings.HasPrefix(w.Name, "-") {
		return w.Name
	}
	return f.exec
}

// module runs a Python module.
func (w *Request) module() (Resolved, *Error) {
	base, isFile := strings.CutSuffix(w.Name, ".py")
	switch {
	case strings.Contains(w.Name, "/"):
		return Resolved{}, missing(w.Name, "is a path, not the name of a Python module (-m takes package.module)").
			hint("without -m a file is run")
	case isFile && w.exists(w.Name):
		return Resolved{}, missing(w.Name, "is a file, not the name of a Python module").
			hint("did you mean -m " + word(base) + "?")
	}
	python, err := w.interpreter("-m " + w.Name)
	if err != nil {
		return Resolved{}, err
	}
	argv := w.argv(python, "-u", "-m", w.Name)
	return Resolved{Path: python, Argv: argv, Kind: PythonModule, Source: w.moduleSource(w.Name), ScriptArg: 4}, nil
}

// moduleSource is the file of the module where it can be told without Python: below
// the working directory, which is first on Python's search path with -m. A package
// hides a module of the same name, and is run by its __main__.
func (w *Request) moduleSource(name string) string {
	base := strings.ReplaceAll(name, ".", "/")
	names := []string{base + ".py", base + "/__main__.py"}
	if w.exists(base + "/__init__.py") {
		names = names[1:]
	}
	for _, name := range names {
		if w.exists(name) {
			return w.local(name).open
		}
	}
	return ""
}

func (w *Request) exists(name string) bool {
	f := w.local(name)
	return f.stat() == nil && f.isRegular()
}

// interpreter finds the Python that runs program.
func (w *Request) interpreter(program string) (string, *Error) {
	switch {
	case w.Interpreter != "":
		return w.usable(program, w.Interpreter)
	case w.hasPython("VIRTUAL_ENV"):
		return w.usable(program, w.Lookup("VIRTUAL_ENV")+"/bin/python")
	case w.hasPython("CONDA_PREFIX"):
		return w.usable(program, w.Lookup("CONDA_PREFIX")+"/bin/python")
	}
	return w.usable(program, "python3")
}

// Python finds the interpreter that would run a script.
func Python(w Request) (string, error) {
	path, err := w.interpreter("python")
	if err != nil {
		return "", err
	}
	return path, nil
}

// hasPython reports whether the variable names an environment with an interpreter,
// be it a broken link: the packages that the user means are there and nowhere else.
func (w *Request) hasPython(variable string) bool {
	prefix := w.Lookup(variable)
	if prefix == "" {
		return false
	}
	f := w.local(prefix + "/bin/python")
	return f.stat() == nil || isLink(f.open)
}

// usable returns the path of the interpreter, or why it cannot run program.
func (w *Request) usable(program, python string) (string, *Error) {
	f, err := w.findPython(python)
	if err == nil {
		err = w.runnable(python, f)
	}
	if err != nil {
		return "", err.about(program, "its interpreter")
	}
	return f.exec, nil
}

func (w *Request) findPython(name string) (file, *Error) {
	if strings.Contains(name, "/") {
		return w.findFile(name)
	}
	f, found := w.searchPATH(name)
	if !found {
		return file{}, missing(name, "not found in PATH")
	}
	return f, nil
}

// textOf is the Python file that an executable with these arguments runs, where
// that can be told: a script by its ending, or what `python [options] x.py` and
// `python -m module` name.
func (w *Request) textOf(f file) string {
	switch {
	case strings.HasSuffix(f.exec, ".py"):
		return f.open
	case !isPython(path.Base(f.exec)):
		return ""
	}
	return w.textOfArgs(w.Args)
}

// textOfArgs is the file that Python runs with these arguments.
func (w *Request) textOfArgs(args []string) string {
	for len(args) > 0 {
		option, value := args[0], args[1:]
		switch {
		case !strings.HasPrefix(option, "-"):
			if w.exists(option) {
				return w.local(option).open
			}
			return ""
		case option == "-m" && len(value) > 0:
			return w.moduleSource(value[0])
		case (option == "-X" || option == "-W") && len(value) > 0:
			value = value[1:]
		case option == "-" || strings.Trim(option[1:], pythonFlags) != "":
			return "" // -c, standard input, or something newer than this list
		}
		args = value
	}
	return ""
}

// pythonFlags are Python's options of one letter that take no value.
const pythonFlags = "bBdEhiIOPqRsSuvVx"

// isPython reports whether a command is Python by its name: python, python3, python3.12.
func isPython(command string) bool {
	version, ok := strings.CutPrefix(command, "python")
	return ok && strings.Trim(version, "0123456789.") == ""
}
