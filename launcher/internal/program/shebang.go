package program

import (
	"bytes"
	"path"
	"strconv"
	"strings"
)

// scriptHead is how much of a script Linux looks at for its first line.
const scriptHead = 256

// shebang says why the script that begins with h would not run. It reads the line
// as the kernel does (fs/binfmt_script.c): blanks, the interpreter's path, blanks,
// and the rest as one argument.
func (w *Request) shebang(name string, h *head, depth int) *Error {
	line, whole := firstLine(h.data())
	interpreter, argument, _ := strings.Cut(line, " ")
	argument = strings.TrimLeft(argument, " ")
	switch {
	case interpreter == "":
		return refused(name, "its #! line names no interpreter")
	case !whole && argument == "":
		return refused(name, "its #! line is longer than the 256 bytes that the kernel reads")
	case depth >= scriptDepth:
		return refused(name, "its interpreters are scripts, more than five deep")
	}
	if err := w.interpreterRuns(interpreter, depth); err != nil {
		return windowsLines(name, line, err.about(name, "its #! line asks for"))
	}
	if path.Base(interpreter) == "env" {
		return w.envFinds(name, line, argument, depth)
	}
	return nil
}

// firstLine returns the line after #!, its blanks all spaces and none at the ends;
// whole is false when it does not end in what the kernel reads.
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

// interpreterRuns says why the interpreter at a path would not run.
func (w *Request) interpreterRuns(interpreter string, depth int) *Error {
	f := w.local(interpreter)
	if err := f.stat(); err != nil {
		return unreachable(interpreter, f.open, err)
	}
	return w.runnableAt(interpreter, f, depth+1)
}

// envFinds says why `env argument` would not find its command. Options other than
// -S are env's own business.
func (w *Request) envFinds(name, line, argument string, depth int) *Error {
	command := argument
	if split, ok := strings.CutPrefix(argument, "-S"); ok {
		command = firstCommand(split)
	}
	if command == "" || strings.HasPrefix(command, "-") || strings.Contains(command, "=") {
		return nil
	}
	f, found := w.command(command)
	switch {
	case found:
		if err := w.runnableAt(command, f, depth+1); err != nil {
			return err.about(name, "its #! line asks for")
		}
		return nil
	case strings.Contains(command, " ") && !strings.HasSuffix(line, "\r"):
		return missing(name, "its #! line has env look for one command named "+strconv.Quote(command)).
			hint("env -S splits it into words: #!/usr/bin/env -S " + visible(command))
	}
	return windowsLines(name, line, missing(name, "its #! line asks for "+visible(command)+", which is not in PATH"))
}

// command finds a command as execvp does: no look into the working directory.
func (w *Request) command(name string) (f file, found bool) {
	if strings.Contains(name, "/") {
		f = w.local(name)
		return f, f.stat() == nil
	}
	return w.searchPATH(name)
}

// firstCommand is the first word of an env -S line that is not an assignment.
func firstCommand(split string) string {
	for _, word := range strings.Fields(split) {
		if !strings.Contains(word, "=") {
			return word
		}
	}
	return ""
}

// windowsLines replaces err where the real reason is a carriage return before the
// end of the line: it belongs to the interpreter's name for the kernel.
func windowsLines(name, line string, err *Error) *Error {
	if !strings.HasSuffix(line, "\r") {
		return err
	}
	return missing(name, "its lines end in CR LF, as on Windows, so its #! line asks for "+visible(line)).
		hint(`sed -i 's/\r$//' ` + word(name))
}
