package diagnosis

import (
	"cmp"
	"fmt"
	"strings"

	"gorun/launcher/doctor/signature"
)

// Hint returns something to try that is known to help with what the last lines of a rank say, or "". Lines that name a cause count
// before those that leave it open; of several the last one, for what ended the rank stands at the end. A command in a hint works as
// it is, and the one at its end says more.
func Hint(lines []string) string {
	m, _ := known(lines)
	return advice(m)
}

// HintOf is Hint for the rank that failed first, where others' last words may tell more: a line that follows from another rank's
// failure gives no hint when one of them names a cause. others returns the last lines of the other ranks, one after the other, and is
// asked only then. Where no line is known the way in which the rank ended may be: its exit status, or the signal.
func HintOf(lines []string, status, signal int, others func(yield func(rank int, lines []string) bool)) string {
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
		m, _ = signature.End(status, signal)
	}
	return advice(m)
}

// known is the signature of the most telling of some lines, of equal ones the last.
func known(lines []string) (best signature.Match, ok bool) {
	for i := len(lines) - 1; i >= 0; i-- {
		m, found := signature.Best(clean(lines[i]))
		if found && (!ok || m.Kind < best.Kind) {
			best, ok = m, true
		}
	}
	return best, ok
}

// advice is what to do about a signature, and where there is more. What only follows from another's failure has none, unless its
// record says one.
func advice(m signature.Match) string {
	if m.Signature == nil || m.Kind == signature.Victim && m.Hint == "" {
		return ""
	}
	text := m.Text(cmp.Or(m.Hint, m.Fix))
	return strings.TrimSuffix(text, ".") + " (gorun explain " + m.ID + ")"
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
