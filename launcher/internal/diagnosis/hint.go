package diagnosis

import (
	"fmt"
	"iter"
	"strings"

	"gorun/launcher/doctor/signature"
)

// Hint returns something to try that is known to help with what the last lines of the rank that failed first say, or
// "". Lines that name a cause count before those that leave it open; of several the last one, for what ended the rank
// stands at the end. A command in a hint works as it is, and the one at its end says more.
//
// A line that follows from another rank's failure gives way when one of the others names a cause: others yields their
// last lines, and is asked only then. Where no line is known the way in which the rank ended may be: its exit status,
// or the signal.
func Hint(lines []string, status, signal int, others iter.Seq2[int, []string]) string {
	m, ok := known(lines)
	if ok && m.Kind == signature.Cause {
		return advice(m)
	}
	if ok && m.Kind == signature.Victim {
		for rank, last := range others {
			if other, ok := known(last); ok && other.Kind == signature.Cause {
				return fmt.Sprintf("rank %d: %s", rank, advice(other))
			}
		}
	}
	if !ok {
		m, _ = signature.ByExit(status, signal)
	}
	return advice(m)
}

// known is the signature of the most telling of some lines, of equal ones the last; remarks explain no failure, and
// what leaves too much open says nothing.
func known(lines []string) (best signature.Match, ok bool) {
	for i := len(lines) - 1; i >= 0; i-- {
		m, found := signature.Best(clean(lines[i]))
		if found && m.InReports() && (!ok || m.Kind < best.Kind) {
			best, ok = m, true
		}
	}
	return best, ok
}

// advice is what to do about a signature, and where there is more. What only follows from another's failure has none,
// unless its record says one.
func advice(m signature.Match) string {
	if m.Signature == nil || m.Kind == signature.Victim && m.Hint == "" {
		return ""
	}
	return m.Advice() + " (gorun explain " + m.ID + ")"
}

// has reports whether a line contains one of the texts.
func has(line string, texts ...string) bool {
	for _, text := range texts {
		if strings.Contains(line, text) {
			return true
		}
	}
	return false
}
