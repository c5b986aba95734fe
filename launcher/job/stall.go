package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gorun/launcher/internal/spec"
)

// Stall is a moment at which ranks had waited in the store for long and nothing
// came further.
type Stall struct {
	Waited  time.Duration    `json:"waited_ns"`
	At      time.Time        `json:"at"`
	Waiting []spec.StoreWait `json:"waiting"`
	// Missing are the ranks that did not wait there.
	Missing []spec.Absence `json:"missing,omitempty"`
	// NCCL is what NCCL says, as Hang's.
	NCCL []string `json:"nccl,omitempty"`
}

// String says it in one line: who waits for what, and who is missing. The texts of
// the stall must be free of control bytes.
func (s *Stall) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "waiting %s in the store: ", s.Waited.Round(time.Second))
	waiting := s.ranks()
	all := len(waiting) + len(s.Missing)
	switch {
	case len(waiting) == 0:
		fmt.Fprintf(&b, "%s for %s",
			counted(len(s.Waiting), "process that is no rank waits", "processes that are no ranks wait"), s.keys())
	case len(s.Missing) == 0:
		fmt.Fprintf(&b, "all %s for %s, which nobody sets", counted(all, "rank waits", "ranks wait"), s.keys())
	default:
		fmt.Fprintf(&b, "%d of %s for %s", len(waiting), counted(all, "rank waits", "ranks wait"), s.keys())
	}
	if len(s.Missing) > 0 {
		b.WriteString("; missing " + s.missing())
	}
	return b.String()
}

// ranks are those that wait, each once.
func (s *Stall) ranks() (ranks []int) {
	for _, w := range s.Waiting {
		if w.Rank >= 0 {
			ranks = append(ranks, w.Rank)
		}
	}
	slices.Sort(ranks)
	return slices.Compact(ranks)
}

// keys names the key for which most wait, and counts the others.
func (s *Stall) keys() string {
	waiters, most, others := map[string]int{}, "", 0
	for _, w := range s.Waiting {
		others += w.More
		for _, k := range w.Keys {
			waiters[k]++
		}
	}
	for k, n := range waiters {
		if most == "" || n > waiters[most] || n == waiters[most] && k < most {
			most = k
		}
	}
	text := fmt.Sprintf("%q", clip(most, longestKey))
	if others += len(waiters) - 1; others > 0 {
		text += " and " + counted(others, "other key", "other keys")
	}
	return text
}

// longestKey is how many characters of a key are shown.
const longestKey = 80

// missing describes the first ranks that are missing and counts the rest.
func (s *Stall) missing() string {
	const most = 3
	var list []string
	for _, a := range s.Missing[:min(len(s.Missing), most)] {
		list = append(list, absenceText(a))
	}
	if rest := s.Missing[len(list):]; len(rest) > 0 {
		var ranks []int
		for _, a := range rest {
			ranks = append(ranks, a.Rank)
		}
		list = append(list, "ranks "+RankRanges(ranks))
	}
	return strings.Join(list, ", ")
}

// absenceText describes the rank: "rank 5 (pid 4711, sleeping, 0 % CPU)".
func absenceText(a spec.Absence) string {
	text := fmt.Sprintf("rank %d (", a.Rank)
	if a.PID != 0 {
		text += fmt.Sprintf("pid %d, ", a.PID)
	}
	text += a.State
	if a.CPU >= 0 {
		text += fmt.Sprintf(", %d %% CPU", a.CPU)
	}
	return text + ")"
}

// counted returns a number with the words for one or many.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
