package program

import (
	"bytes"
	"io"
	"os"
)

// sourceLimit is how much of a program's text is read.
const sourceLimit = 1 << 20

// Assignment is a place at which a script gives MASTER_PORT a value.
type Assignment struct {
	Line int // from 1
	Port int // the value where it is a number in the text, else 0
	// Regroups says that the script makes process groups one after the other, all of them at Port.
	Regroups bool
}

// AssignsMasterPort reports whether the Python file at path itself gives MASTER_PORT
// a value whatever it was before, and the first such place. A script
// that does must host its own store: nobody else would be at that port.
//
// These count, at the top level, in functions that something in the script may call, and in the blocks of if (where all
// branches do), try, with and loops:
//
//	os.environ["MASTER_PORT"] = "12355"
//	os.environ.update({"MASTER_PORT": port}), os.environ.update(MASTER_PORT=port), os.environ |= {…}
//	os.putenv("MASTER_PORT", port)
//
// These do not, because they keep a port that is there or may never run: setdefault; a function whose name the script
// mentions nowhere else; a value made from the old one; anything below `if "MASTER_PORT" not in os.environ`, `except
// KeyError`, or another condition that Linux and `__name__ == "__main__"` do not decide. Text in comments and strings
// is text.
//
// It is a scanner, not a parser: what it does not understand does not count.
// A file that cannot be read assigns nothing; of a big one the first 1 MiB counts.
func AssignsMasterPort(path string) (place Assignment, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return place, false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, sourceLimit))
	if err != nil {
		return place, false
	}
	return assignsMasterPort(text)
}

func assignsMasterPort(text []byte) (place Assignment, ok bool) {
	if !bytes.Contains(text, []byte(masterPort)) {
		return place, false
	}
	script := blocks(logicalLines(string(text)))
	s := scan{
		environ: map[string]bool{"environ": true, "environb": true}, kept: map[string]bool{}, ports: map[int]int{},
		unreached: unreached(script),
	}
	line := s.suite(script)
	place = Assignment{Line: line, Port: s.ports[line]}
	place.Regroups = place.Port != 0 && regroups(script)
	return place, line != 0
}
