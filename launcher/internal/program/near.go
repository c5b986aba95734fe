package program

import (
	"os"
	"path"
	"strings"

	"gorun/internal/spelling"
	"gorun/launcher/internal/spec"
)

// nearLimit is the number of names in a directory that are compared with a name
// that was not found.
const nearLimit = 10000

// notFound adds to err the file that was probably meant: in the directory that was
// named, or where the file's name stands alone in the working directory.
func (w *Request) notFound(name string, err *Error) *Error {
	if whole := w.unquoted(name); whole != "" {
		return err.hint("its name has a blank: write " + word(whole))
	}
	dir, base := path.Split(name)
	if near := w.nearest(dir, base); near != "" {
		if how := compiled(near); how != "" {
			return err.hint(how)
		}
		return err.hint("did you mean " + word(near) + "?")
	}
	if dir != "" {
		if near := w.nearest("", base); near != "" {
			return err.hint("did you mean " + word(near) + "?")
		}
		return err
	}
	if w.Start == spec.StartPython { // Python searches no PATH for scripts
		if f, found := w.searchPATH(base); found && f.mayRun() {
			return err.hint("--no-python runs " + word(base) + " from PATH as it is")
		}
		return err
	}
	return err // what a slip away in PATH has is the system's: reboot for report
}

// unquoted is the file that is meant where a shell split its name at a blank, "" where there is
// none.
func (w *Request) unquoted(name string) string {
	const most = 4 // words
	for _, more := range w.Args[:min(len(w.Args), most)] {
		name += " " + more
		if f := w.local(name); strings.Contains(name, "/") && f.stat() == nil && f.isRegular() {
			return name
		}
	}
	return ""
}

// compilers are those of MPI programs, by the ending of what they read.
var compilers = map[string]string{
	".c": "mpicc", ".cc": "mpicxx", ".cpp": "mpicxx", ".cxx": "mpicxx", ".f": "mpifort", ".f90": "mpifort",
	".F90": "mpifort", ".cu": "nvcc",
}

// compiled is how a source file becomes a program, "" where it is none.
func compiled(file string) string {
	ending := path.Ext(file)
	compiler := compilers[ending]
	if compiler == "" {
		return ""
	}
	return word(file) + " is to be compiled first, such as by " + compiler + " -o " +
		word(strings.TrimSuffix(file, ending)) + " " + word(file)
}

// nearest is the path of the file in dir, as seen from the ranks' working
// directory, whose name is most like base; "" if none is.
func (w *Request) nearest(dir, base string) string {
	best := closest(base, w.local(dir+".").open)
	if best == "" {
		return ""
	}
	return w.local(dir + best).exec
}

// closest is the name in dir that is most like base, the first in the alphabet
// among equals.
func closest(base, dir string) string {
	best, least := "", 3 // more than two slips are another word
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
	names, _ := d.Readdirnames(nearLimit) // what could be read is good enough for a guess
	return names
}

// distance counts the slips between what was typed and a name: letters left out,
// added, changed, or swapped with a neighbour. A forgotten or added ending, and
// other capitals, are one slip. Short names must be closer; 3 and more mean that
// they have nothing to do with each other.
func distance(typed, name string) int {
	switch {
	case strings.EqualFold(typed, name), endingsDiffer(typed, name):
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

// endingsDiffer reports whether a and b are one name with and without an ending
// such as .py, .sh or .go.
func endingsDiffer(a, b string) bool {
	return strings.TrimSuffix(a, path.Ext(a)) == b || strings.TrimSuffix(b, path.Ext(b)) == a
}
