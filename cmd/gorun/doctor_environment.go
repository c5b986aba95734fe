package main

import (
	"slices"

	"gorun/env/nccl"
	"gorun/launcher/doctor"
)

// harmless are problems of settings with which jobs run as they would without.
var harmless = []nccl.Problem{nccl.ProblemLegacy, nccl.ProblemDefault, nccl.ProblemDebugging, nccl.ProblemVersion, nccl.ProblemPrefix}

// environmentRemarks are what gorun env --lint says of the settings that ranks would
// inherit here.
func environmentRemarks() []doctor.Remark {
	l := lintReport{}
	if l.chooseLibrary("") != nil {
		return nil
	}
	settings, unread := settingsHere(l.library.Kind)
	var remarks []doctor.Remark
	for _, f := range append(nccl.Lint(settings, l.library), unread...) {
		r := doctor.Remark{Severity: doctor.Warning, Text: whatOf(f.Assignment) + ": " + f.Text, Evidence: whereOf(f.Assignment), Fix: "gorun env --explain " + f.Name}
		if f.Name == "" {
			r.Text, r.Evidence, r.Fix = f.File+": "+f.Text, "", "gorun env --lint"
		}
		if slices.Contains(harmless, f.Problem) {
			r.Severity = doctor.Note
		}
		remarks = append(remarks, r)
	}
	return remarks
}
