package nccl

import (
	"strings"

	"gorun/internal/spelling"
)

// shortestSlip is how many letters a name has at least that is held against others: in a short one
// every letter tells.
const shortestSlip = 7

// slips finds names that are one slip from a known one, whatever many are asked for.
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

// of is the name that was meant, "" for none. Below a pattern there are variables that nobody has
// written down, and whose names differ from others by a letter (UCX_RC_…, UCX_DC_…): there one that
// is put in, left out or swapped is a slip, and another one is none.
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

// deliberate reports whether a name is made from a known one as people make names: with a number
// (MASTER_PORT2), a line below (_LD_PRELOAD, PYTHON_PATH for that of the interpreter), or as a plural
// (MASTER_PORTS).
func deliberate(name, known string) bool {
	bare := func(text string) string { return strings.Trim(text, "_0123456789") }
	apart := len(name) > len(known) && strings.ReplaceAll(name, "_", "") == strings.ReplaceAll(known, "_", "")
	return apart || bare(name) == bare(known) || name == known+"S" && !strings.HasSuffix(known, "S")
}
