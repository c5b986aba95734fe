package main

import (
	"slices"

	"gorun/env/nccl"
	"gorun/launcher/doctor"
)

// harmless are problems of settings with which jobs run as they would without.
var harmless = []nccl.Problem{nccl.ProblemLegacy, nccl.ProblemDefault, nccl.ProblemDebugging, nccl.ProblemVersion}

// environmentRemarks are what gorun env --lint says of the settings that ranks would
// inherit here.
func environmentRemarks() []doctor.Remark {
	l := lintReport{}
	if l.chooseLibrary("") != nil {
		return nil
	}
	settings, err := settingsOf(nil, l.library.Kind)
	if err != nil {
		return []doctor.Remark{{Severity: doctor.Note, Text: err.Error()}}
	}
	var remarks []doctor.Remark
	for _, f := range nccl.Lint(settings, l.library) {
		r := doctor.Remark{Severity: doctor.Warning, Text: f.Name + "=" + f.Value + ": " + f.Text, Evidence: whereOf(f.Assignment), Fix: "gorun env --explain " + f.Name}
		if slices.Contains(harmless, f.Problem) {
			r.Severity = doctor.Note
		}
		remarks = append(remarks, r)
	}
	return remarks
}
