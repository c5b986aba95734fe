package diagnosis

import (
	"fmt"
	"iter"

	"gorun/launcher/doctor/signature"
)

// Hint returns advice for the last lines of the rank that failed first, or "". Lines that name a cause take precedence
// over those that leave it open, and later lines over earlier ones. Commands in a hint work as they are; the one at its
// end shows more.
//
// If the lines only follow from another rank's failure, Hint looks for a cause in the last lines of the others. If no
// line is known, the exit status or the signal may be.
//
// id is that of the signature, also of one without advice.
func Hint(lines []string, status, signal int, others iter.Seq2[int, []string]) (text, id string) {
	m, ok := bestMatch(lines)
	if ok && m.Kind == signature.Victim {
		for rank, last := range others {
			if other, ok := bestMatch(last); ok && other.Kind == signature.Cause {
				return fmt.Sprintf("rank %d: %s", rank, advice(other)), other.ID
			}
		}
	}
	if !ok {
		if m, ok = signature.ByExit(status, signal); !ok {
			return "", ""
		}
	}
	return advice(m), m.ID
}

// bestMatch returns the most telling signature in some lines, among equals the last.
func bestMatch(lines []string) (best signature.Match, ok bool) {
	for i := len(lines) - 1; i >= 0; i-- {
		m, found := signature.Best(clean(lines[i]))
		if found && m.InReports() && (!ok || m.Kind < best.Kind) {
			best, ok = m, true
		}
	}
	return best, ok
}

// advice returns a signature's advice and a command that explains more. A victim of another failure has advice only if
// its record has a hint.
func advice(m signature.Match) string {
	if m.Kind == signature.Victim && m.Hint == "" {
		return ""
	}
	return m.Advice() + " (`gorun explain " + m.ID + "`)"
}
