package program

import (
	"bytes"
	"io"
	"os"
)

// sourceLimit is the maximum number of bytes that are read of a program's source.
const sourceLimit = 1 << 20

// Assignment is a place at which a script sets MASTER_PORT.
type Assignment struct {
	Line int // from 1
	Port int // the value if it is a literal number, else 0
	// Regroups says that the script creates several process groups in sequence, all of them at Port.
	Regroups bool
}

// AssignsMasterPort reports whether the Python file at path sets MASTER_PORT unconditionally, and the first such place.
// Such a script must host its own store: there is no other one at that port.
//
// These statements count at the top level, in functions that the script may call, and in the blocks of try, with and
// loops. In an if statement they count if all branches set the port:
//
//	os.environ["MASTER_PORT"] = "12355"
//	os.environ.update({"MASTER_PORT": port}), os.environ.update(MASTER_PORT=port), os.environ |= {…}
//	os.putenv("MASTER_PORT", port)
//
// These do not count, because they keep an existing port or may never run:
//
//   - setdefault, and a value made from the old one
//   - a function whose name the script mentions nowhere else
//   - anything in a block of `if "MASTER_PORT" not in os.environ`, `except KeyError`, or another condition that Linux
//     and `__name__ == "__main__"` do not decide
//   - comments and strings
//
// This is a scanner, not a parser: it ignores syntax that it does not understand. It reads only the first 1 MiB, and
// a file that cannot be read sets nothing.
func AssignsMasterPort(path string) (place Assignment, ok bool) {
	text, err := readSource(path)
	if err != nil {
		return place, false
	}
	return assignsMasterPort(text)
}

// readSource reads the beginning of a program's text.
func readSource(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, sourceLimit))
}

func assignsMasterPort(text []byte) (place Assignment, ok bool) {
	if !bytes.Contains(text, []byte(masterPort)) {
		return place, false
	}
	script := parseBlocks(logicalLines(string(text)))
	s := portScan{
		environ: map[string]bool{"environ": true, "environb": true}, kept: map[string]bool{}, ports: map[int]int{},
		uncalled: uncalledFunctions(script),
	}
	line := s.suite(script)
	place = Assignment{Line: line, Port: s.ports[line]}
	place.Regroups = place.Port != 0 && regroups(script)
	return place, line != 0
}
