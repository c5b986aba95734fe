package job

import (
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/internal/spec"
)

// NCCL has messages of NCCL or RCCL in the output of ranks. The texts must be free of control bytes.
type NCCL struct {
	// Summaries describe how ranks communicate, with one for all ranks that do so in the same way.
	Summaries []spec.NCCLSummary `json:"summaries,omitempty"`
	// Warnings are its distinct lines of WARN, in the order of their first occurrence.
	Warnings []spec.NCCLWarning `json:"warnings,omitempty"`
}

// CountedRanges returns ranks as ranges with their number: [0-7]×8.
func CountedRanges(ranks []int) string { return fmt.Sprintf("%s×%d", shortRanges(ranks), len(ranks)) }

// reportNCCL is how many warnings of NCCL a report has at most.
const reportNCCL = 3

// ncclWarnings returns the first ones, with the first one of the rank that failed first.
func (r *Result) ncclWarnings() []spec.NCCLWarning {
	if r.NCCL == nil {
		return nil
	}
	list := r.NCCL.Warnings
	if f := r.First; f != nil {
		list = slices.DeleteFunc(slices.Clone(list), func(w spec.NCCLWarning) bool {
			return len(w.Ranks) == 1 && w.Ranks[0] == f.Rank && f.shows(w.Text)
		})
	}
	most := reportNCCL
	if len(r.Attempts) > 0 {
		most--
	}
	if len(list) <= most {
		return list
	}
	first := list[:most:most]
	of := func(w spec.NCCLWarning) bool { return r.First != nil && slices.Contains(w.Ranks, r.First.Rank) }
	if i := slices.IndexFunc(list, of); i >= most {
		first = append(slices.Clone(first[:most-1]), list[i])
	}
	return first
}

// shows reports whether the rank's lines in the report contain a text.
func (f *Failure) shows(text string) bool {
	shown := f.LastLines[max(0, len(f.LastLines)-reportLast):]
	return slices.ContainsFunc(shown, func(line string) bool { return strings.Contains(line, text) })
}

func (b *reportBuilder) nccl(list []spec.NCCLWarning) {
	name := "nccl"
	for _, w := range list {
		b.row(name, CountedRanges(w.Ranks)+" │ NCCL WARN "+clip(w.Text, 120))
		name = ""
	}
}
