package nccl

import (
	_ "embed"
	"strings"

	"gorun/internal/spelling"
)

// knownNames are the names with NCCL_ or RCCL_ that some version reads, sorted, one a line. A starting job
// uses this list: parsing the data takes a thousand times as long.
//
//go:embed names.txt
var knownNames string

// IsUnread reports whether no version of NCCL or RCCL reads a name with their prefix. Variables of NCCL's
// plug-ins, tests and installations count as read.
func IsUnread(name string) bool {
	if !strings.HasPrefix(name, "NCCL_") && !strings.HasPrefix(name, "RCCL_") {
		return false
	}
	if hasLine(name) {
		return false
	}
	for i := len("NCCL_"); i < len(name); i++ {
		if name[i] == '_' && hasLine(name[:i+1]+"*") {
			return false
		}
	}
	return true
}

// hasLine reports whether knownNames has a line.
func hasLine(line string) bool {
	return strings.HasPrefix(knownNames, line+"\n") || strings.Contains(knownNames, "\n"+line+"\n")
}

// Meant returns the variables that an unread name most likely means. wrong is false if the name is unlike
// all others: a site may have its own.
func Meant(name string) (meant []string, wrong bool) {
	if v, found := Lookup(name); found {
		return v.Instead, v.Status == Never
	}
	if rest, ours := strings.CutPrefix(name, "RCCL_"); ours && hasLine("NCCL_"+rest) {
		return []string{"NCCL_" + rest}, true
	}
	most := 3 // in a short name every letter matters
	if len(name) < len("NCCL_")+shortestSlip {
		most = 2
	}
	for _, known := range Names() {
		if !strings.HasPrefix(known, "NCCL_") && !strings.HasPrefix(known, "RCCL_") || deliberate(name, known) {
			continue
		}
		if off := spelling.Distance(name, known, most); off < most {
			meant, most = []string{known}, off
		}
	}
	return meant, meant != nil
}
