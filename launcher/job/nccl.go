package job

import (
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/internal/spec"
)

// NCCL is what NCCL or RCCL said in the output of ranks. The texts must be free of control bytes.
type NCCL struct {
	// Summaries say in what way ranks communicate, those that do so in the same way together.
	Summaries []spec.NCCLSummary `json:"summaries,omitempty"`
	// Warnings are its lines of WARN, those that say the same as one, in the order in which the first of each came.
	Warnings []spec.NCCLWarning `json:"warnings,omitempty"`
}

// CountedRanges writes ranks with their number: [0-7]×8.
func CountedRanges(ranks []int) string { return fmt.Sprintf("%s×%d", shortRanges(ranks), len(ranks)) }

// reportNCCL is how many warnings of NCCL's a report has at most.
const reportNCCL = 3

// ncclWarnings are those of the report: the first ones, and the first of the rank that failed first.
func (r *Result) ncclWarnings() []spec.NCCLWarning {
	if r.NCCL == nil {
		return nil
	}
	list := r.NCCL.Warnings
	if f := r.First; f != nil {
		list = slices.DeleteFunc(slices.Clone(list), func(w spec.NCCLWarning) bool {
			return len(w.Ranks) == 1 && w.Ranks[0] == f.Rank && f.says(w.Text)
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

// says reports whether the lines that are shown of the rank have a text.
func (f *Failure) says(text string) bool {
	shown := f.LastLines[max(0, len(f.LastLines)-reportLast):]
	return slices.ContainsFunc(shown, func(line string) bool { return strings.Contains(line, text) })
}

// nccl shows what NCCL warned of.
func (b *reportBuilder) nccl(list []spec.NCCLWarning) {
	name := "nccl"
	for _, w := range list {
		b.row(name, CountedRanges(w.Ranks)+" │ NCCL WARN "+clip(w.Text, 120))
		name = ""
	}
}
