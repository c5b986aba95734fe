package program

import (
	"bytes"
	"path"
	"strconv"
	"strings"
)

// scriptHead is the number of bytes that Linux reads for the first line.
const scriptHead = 256

// checkScript returns an error if the script would not run. It reads the #! line as the kernel does
// (fs/binfmt_script.c): blanks, the interpreter's path, blanks, and the rest as one argument.
func (req *request) checkScript(name string, h head, depth int) *Error {
	line, whole := firstLine(h)
	interpreter, argument, _ := strings.Cut(line, " ")
	argument = strings.TrimLeft(argument, " ")
	switch {
	case interpreter == "":
		return refused(name, "its #! line has no interpreter")
	case !whole && argument == "":
		return refused(name, "its #! line is longer than the 256 bytes that the kernel reads")
	case depth >= maxInterpreters:
		return refused(name, "its interpreters are scripts, more than five deep")
	}
	f := req.local(interpreter)
	var problem *Error
	if err := f.stat(); err != nil {
		problem = unreachable(interpreter, f.open, err)
	} else {
		problem = req.checkExecutable(interpreter, f, depth+1)
	}
	switch {
	case problem != nil:
		return carriageReturnError(name, line, problem.about(name, "its #! line needs"))
	case path.Base(interpreter) == "env":
		return req.checkEnv(name, line, argument, depth)
	}
	return nil
}

// firstLine returns the line after #! with its blanks as spaces, trimmed; whole is false if the kernel does not read
// its end.
func firstLine(data []byte) (line string, whole bool) {
	data = data[2:min(len(data), scriptHead)]
	end := bytes.IndexByte(data, '\n')
	whole = end >= 0 || len(data) < scriptHead-2
	if end >= 0 {
		data = data[:end]
	}
	if nul := bytes.IndexByte(data, 0); nul >= 0 {
		data = data[:nul]
	}
	return strings.Trim(strings.ReplaceAll(string(data), "\t", " "), " "), whole
}

// checkEnv returns an error if `env argument` would not find its command. It accepts options other than -S.
func (req *request) checkEnv(name, line, argument string, depth int) *Error {
	command := argument
	if split, ok := strings.CutPrefix(argument, "-S"); ok {
		command = firstCommand(split)
	}
	if command == "" || strings.HasPrefix(command, "-") || strings.Contains(command, "=") {
		return nil
	}
	f, found := req.findCommand(command)
	switch {
	case found:
		if err := req.checkExecutable(command, f, depth+1); err != nil {
			return err.about(name, "its #! line needs")
		}
		return nil
	case strings.Contains(command, " ") && !strings.HasSuffix(line, "\r"):
		return missing(name, "its #! line has env look for one command named "+strconv.Quote(command)).
			hint("write `#!/usr/bin/env -S " + visible(command) + "`, which splits it into words")
	}
	return carriageReturnError(name, line, missing(name,
		"its #! line needs "+visible(command)+", which is not in PATH"))
}

// findCommand finds a command as execvp does, without the working directory.
func (req *request) findCommand(name string) (f file, found bool) {
	if strings.Contains(name, "/") {
		f = req.local(name)
		return f, f.stat() == nil
	}
	return req.searchPATH(name)
}

// firstCommand returns the first word of an env -S line that is not an assignment.
func firstCommand(split string) string {
	for _, word := range strings.Fields(split) {
		if !strings.Contains(word, "=") {
			return word
		}
	}
	return ""
}

// carriageReturnError replaces err if the reason is a carriage return at the end of the line, which the kernel takes as
// part of the interpreter's name.
func carriageReturnError(name, line string, err *Error) *Error {
	if !strings.HasSuffix(line, "\r") {
		return err
	}
	return missing(name, "its lines end in CR LF, as on Windows, so its #! line asks for "+visible(line)).
		hint("run `sed -i 's/\\r$//' " + word(name) + "`")
}
