package nccl

import (
	"strings"

	"gorun/internal/spelling"
)

// shortestSlip is the minimum length of a name for comparisons: in a short name every letter matters.
const shortestSlip = 7

// slip returns the name of another library than NCCL that was probably meant, one letter off, or "". A pattern
// covers undocumented variables whose names differ in one letter (UCX_RC_…, UCX_DC_…). For such a name only an
// extra, missing or swapped letter counts as a slip.
func (s *speller) slip(name string, pattern bool) string {
	const slip = 1
	letters := spelling.LettersOf(name)
	for _, k := range s.known {
		switch {
		case len(k.name) < shortestSlip, strings.HasPrefix(k.name, "NCCL_"), strings.ToUpper(name) != name:
		case letters.AtLeast(k.letters) > slip, spelling.Distance(name, k.name, slip+1) != slip, deliberate(name, k.name):
		case pattern && len(k.name) == len(name) && letters != k.letters:
		default:
			return k.name
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
