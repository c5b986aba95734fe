package diagnosis

import "strings"

// WithoutAbortHelp removes the help text about MPI_Abort that Open MPI prints between two lines of dashes, so that the
// program's own last lines remain. A relocated installation prints that it cannot find the text instead.
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

// abortHelp returns the number of lines of the help text at the beginning of lines, or 0.
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

// isRule reports whether a line is a rule of dashes, as Open MPI prints around its messages.
func isRule(line string) bool { return len(line) >= 60 && strings.Trim(line, "-") == "" }
