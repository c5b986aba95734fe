package job

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gorun/launcher/internal/spec"
)

// Stall describes ranks that have waited in the store without progress.
type Stall struct {
	spec.Stall
	// NCCL has the findings from NCCL's RAS servers, as Hang.NCCL.
	NCCL []string `json:"nccl,omitempty"`
}

// String describes the stall in one line: the waiting ranks, their keys and the missing ranks. The texts must be free
// of control bytes.
func (s *Stall) String() string {
	ranks := map[int]bool{}
	for _, w := range s.Waiting {
		if w.Rank >= 0 {
			ranks[w.Rank] = true
		}
	}
	text := fmt.Sprintf("no rendezvous progress for %s: ", time.Duration(s.Waited).Round(time.Second))
	all := counted(len(ranks)+len(s.Missing), "rank waits", "ranks wait")
	switch {
	case len(ranks) == 0:
		text += fmt.Sprintf("%s for %s",
			counted(len(s.Waiting), "process outside the job waits", "processes outside the job wait"), s.keys())
	case len(s.Missing) == 0:
		text += fmt.Sprintf("all %s for %s, which no rank sets", all, s.keys())
	default:
		text += fmt.Sprintf("%d of %s for %s", len(ranks), all, s.keys())
	}
	if len(s.Missing) > 0 {
		text += "; missing " + s.missing()
	}
	return text
}

// keys names the key with the most waiters, and counts the others.
func (s *Stall) keys() string {
	waiters, others := map[string]int{}, -1
	for _, w := range s.Waiting {
		others += w.More
		for _, k := range w.Keys {
			waiters[k]++
		}
	}
	keys := slices.SortedFunc(maps.Keys(waiters), func(a, b string) int {
		return cmp.Or(cmp.Compare(waiters[b], waiters[a]), cmp.Compare(a, b))
	})
	text := fmt.Sprintf("%q", clip(append(keys, "")[0], longestKey))
	if others += len(keys); others > 0 {
		text += " and " + counted(others, "other key", "other keys")
	}
	return text
}

// longestKey is how many characters of a key are shown.
const longestKey = 80

// missing describes the first missing ranks and lists the others.
func (s *Stall) missing() string {
	const most = 3
	var list []string
	var rest []int
	for i, a := range s.Missing {
		if i < most {
			list = append(list, absenceText(a))
		} else {
			rest = append(rest, a.Rank)
		}
	}
	if len(rest) > 0 {
		list = append(list, "ranks "+RankRanges(rest))
	}
	return strings.Join(list, ", ")
}

// absenceText describes a rank: "rank 5 (pid 4711, sleeping, 0 % CPU)".
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
