package diagnosis

import "strings"

// WithoutAbortHelp leaves out what Open MPI says of MPI_Abort between two lines of dashes, which a report says in four
// words: a program's own last lines stand before it. An installation that was moved does not find that text, and says
// so.
func WithoutAbortHelp(lines []string) []string {
	var kept []string
	for i := 0; i < len(lines); i++ {
		end := abortHelp(lines[i:])
		if end == 0 {
			kept = append(kept, lines[i])
			continue
		}
		i += end - 1
	}
	return kept
}

// abortHelp is the number of lines of such a text, 0 if the first of them begins none.
func abortHelp(lines []string) int {
	if !isRule(lines[0]) || len(lines) < 3 {
		return 0
	}
	sorry := strings.HasPrefix(lines[1], "Sorry!") && strings.TrimSpace(lines[2]) == "mpi-abort"
	if !sorry && !strings.HasPrefix(lines[1], "MPI_ABORT was invoked on rank ") {
		return 0
	}
	for i, line := range lines[1:] {
		if isRule(line) {
			return i + 2
		}
	}
	return 0
}

// isRule reports whether a line is Open MPI's around a text of its own.
func isRule(line string) bool { return len(line) >= 60 && strings.Trim(line, "-") == "" }
