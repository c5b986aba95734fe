package nccl

import (
	"strings"

	"gorun/internal/spelling"
)

// shortestSlip is the minimum length of a name for comparisons: in a short name every letter matters.
const shortestSlip = 7

// slips finds known names that differ by one letter. It answers many queries faster than a plain search.
type slips struct {
	known map[int][]knownSlip // by length
}

type knownSlip struct {
	name    string
	letters spelling.Letters
}

func newSlips(names []string) *slips {
	s := &slips{map[int][]knownSlip{}}
	for _, name := range names {
		if len(name) >= shortestSlip && !strings.HasPrefix(name, "NCCL_") {
			s.known[len(name)] = append(s.known[len(name)], knownSlip{name, spelling.LettersOf(name)})
		}
	}
	return s
}

// of returns the name that was probably meant, or "". A pattern covers undocumented variables whose names
// differ in one letter (UCX_RC_…, UCX_DC_…). For such a name only an extra, missing or swapped letter counts
// as a slip.
func (s *slips) of(name string, pattern bool) string {
	if strings.ToUpper(name) != name {
		return ""
	}
	letters := spelling.LettersOf(name)
	for size := len(name) - 1; size <= len(name)+1; size++ {
		for _, k := range s.known[size] {
			const slip = 1
			switch {
			case letters.AtLeast(k.letters) > slip, spelling.Distance(name, k.name, slip+1) != slip, deliberate(name, k.name):
			case pattern && size == len(name) && letters != k.letters:
			default:
				return k.name
			}
		}
	}
	return ""
}

// deliberate reports whether a name is a common variation of a known one: with a number (MASTER_PORT2), an
// underscore (_LD_PRELOAD, PYTHON_PATH for the interpreter's path), or as a plural (MASTER_PORTS).
func deliberate(name, known string) bool {
	bare := func(text string) string { return strings.Trim(text, "_0123456789") }
	apart := len(name) > len(known) && strings.ReplaceAll(name, "_", "") == strings.ReplaceAll(known, "_", "")
	return apart || bare(name) == bare(known) || name == known+"S" && !strings.HasSuffix(known, "S")
}
