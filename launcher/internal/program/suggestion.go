package program

import (
	"os"
	"path"
	"strings"

	"gorun/internal/spelling"
	"gorun/launcher/internal/spec"
)

// maxNames limits the names of a directory that are compared with a name.
const maxNames = 10000

// suggest adds a hint to the error of a name that was not found: a similar name in its directory, or in the working
// directory.
func (req *request) suggest(name string, err *Error) *Error {
	if whole := req.unquoted(name); whole != "" {
		return err.hint("quote its name, which has a blank: " + word(whole))
	}
	dir, base := path.Split(name)
	if near := req.nearest(dir, base); near != "" {
		if hint := compileHint(near); hint != "" {
			return err.hint(hint)
		}
		return err.hint("did you mean " + word(near) + "?")
	}
	if dir != "" {
		if near := req.nearest("", base); near != "" {
			return err.hint("did you mean " + word(near) + "?")
		}
		return err
	}
	if req.Start == spec.StartPython { // Python does not search PATH for scripts
		if f, found := req.searchPATH(base); found && f.mayRun() {
			return err.hint("add `--no-python` to run " + word(base) + " from PATH as it is")
		}
	}
	return err // no suggestions from PATH, such as reboot for report
}

// unquoted returns the file whose name a shell split at a blank, "" if none exists.
func (req *request) unquoted(name string) string {
	const maxWords = 4
	for _, word := range req.Args[:min(len(req.Args), maxWords)] {
		name += " " + word
		if f := req.local(name); strings.Contains(name, "/") && f.stat() == nil && f.mode.IsRegular() {
			return name
		}
	}
	return ""
}

// compilers are those of MPI and GPU programs by file name extension.
func compilers() map[string]string {
	return map[string]string{
		".c": "mpicc", ".cc": "mpicxx", ".cpp": "mpicxx", ".cxx": "mpicxx", ".f": "mpifort", ".f90": "mpifort",
		".F90": "mpifort", ".cu": "nvcc",
	}
}

// compileHint suggests a command that compiles a source file, "" for other files.
func compileHint(file string) string {
	ending := path.Ext(file)
	compiler := compilers()[ending]
	if compiler == "" {
		return ""
	}
	return "compile it first: `" + compiler + " -o " + word(strings.TrimSuffix(file, ending)) + " " + word(file) + "`"
}

// nearest returns the path in the ranks' working directory of the file in dir with the name most similar to base; "" if
// none is similar.
func (req *request) nearest(dir, base string) string {
	best := closest(base, req.local(dir+".").open)
	if best == "" {
		return ""
	}
	return req.local(dir + best).exec
}

// closest returns the name in dir that is most similar to base, the first in the alphabet among equals.
func closest(base, dir string) string {
	best, least := "", 3 // more than two edits make another word
	for _, name := range namesIn(dir) {
		d := distance(base, name)
		if d < least || d == least && best != "" && name < best {
			best, least = name, d
		}
	}
	return best
}

func namesIn(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxNames) // a partial list is good enough
	return names
}

// distance counts the edits between the typed name and another name: letters omitted, added, changed, or swapped with
// a neighbour. A missing or added extension, and different case, are one edit. Short names must be closer; 3 and more
// mean that the names are unrelated.
func distance(typed, name string) int {
	switch {
	case strings.EqualFold(typed, name), extensionDiffers(typed, name):
		return 1
	case len(typed) > 255:
		return 3
	}
	d := spelling.Distance(typed, name, 3)
	if d*3 > len(typed) {
		return 3
	}
	return d
}

// extensionDiffers reports whether a and b are one name with and without an extension such as .py, .sh or .go.
func extensionDiffers(a, b string) bool {
	return strings.TrimSuffix(a, path.Ext(a)) == b || strings.TrimSuffix(b, path.Ext(b)) == a
}
