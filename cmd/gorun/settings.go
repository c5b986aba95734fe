package main

import (
	"slices"
	"strings"

	"gorun/env/nccl"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/doctor"
)

// harmless are problems of settings with which jobs run as they would without.
var harmless = []nccl.Problem{
	nccl.ProblemLegacy, nccl.ProblemDefault, nccl.ProblemDebugging, nccl.ProblemVersion,
	nccl.ProblemPrefix,
}

// judgeEnvironment has the hosts know what gorun env --lint says of the settings that
// ranks would find there: of this environment, which all inherit, once; of the libraries'
// own files on each host.
func judgeEnvironment(c *doctor.Cluster, environ []string) {
	var l lintReport
	if l.chooseLibrary("") != nil {
		return
	}
	inherited := nccl.Environ(environ)
	slices.SortFunc(inherited, func(a, b nccl.Assignment) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range nccl.Lint(inherited, l.library) {
		c.Notes = append(c.Notes, remarkOf(f))
	}
	for _, h := range c.Hosts {
		h.Notes = append(h.Notes, fileRemarks(h, inherited, l.library)...)
		if r, ok := unheard(h, environ); ok {
			h.Notes = append(h.Notes, r)
		}
		if h.Here {
			_, unread := settingsHere(l.library.Kind)
			for _, f := range unread {
				h.Notes = append(h.Notes, remarkOf(f))
			}
		}
	}
}

// fileRemarks are about the files of a host, of which counts what no file before it and no
// variable sets.
func fileRemarks(h *doctor.Host, inherited []nccl.Assignment, here nccl.Found) (remarks []doctor.Finding) {
	settings := slices.Clone(inherited)
	for _, file := range h.SettingsFiles {
		settings = withFile(settings, file.Path, []byte(file.Text))
	}
	if len(settings) == len(inherited) {
		return nil
	}
	library := here
	if kind := kindAt(h); kind != "" && here.Kind != "" && here.Kind != kind {
		library = nccl.Found{Kind: kind} // of which no version is known
	}
	for _, f := range nccl.Lint(settings, library) {
		if f.File != "" {
			remarks = append(remarks, remarkOf(f))
		}
	}
	return remarks
}

// kindAt is the library that serves a host's GPUs, "" where that is not known.
func kindAt(h *doctor.Host) nccl.Library {
	switch {
	case h.NVIDIA != nil:
		return nccl.NCCL
	case h.AMD != nil:
		return nccl.RCCL
	}
	return ""
}

// remarkOf passes a finding of the lint on, with a command that says more.
func remarkOf(f nccl.Finding) doctor.Finding {
	r := doctor.Finding{
		Severity: doctor.Warning, Text: printable.Text(f.Name + "=" + printable.Short(f.Value) + ": " + f.Text),
		Evidence: printable.Text(whereOf(f.Assignment)),
		Fix:      "gorun env --explain " + shellwords.Quote(f.Name),
	}
	if f.Name == "" { // it is about a file
		r.Text, r.Evidence, r.Fix = printable.Text(f.File+": "+f.Text), "", "ls -lL "+shellwords.Quote(f.File)
	} else if _, known := nccl.Lookup(f.Name); !known {
		if r.Fix = "unset " + shellwords.Quote(f.Name); f.File != "" {
			r.Fix = "grep -n -e " + shellwords.Quote(f.Name) + " " + shellwords.Quote(f.File)
		}
	}
	if slices.Contains(harmless, f.Problem) {
		r.Severity = doctor.Note
	}
	return r
}

// unheard are settings of a host's own environment, as of its shells, that ranks there do
// not have: they inherit this one.
func unheard(h *doctor.Host, inherited []string) (r doctor.Finding, any bool) {
	var names []string
	for _, a := range nccl.Environ(h.Environ) {
		if v, known := nccl.Lookup(a.Name); !known || v.Name != a.Name || !strings.HasPrefix(a.Name, "NCCL_") &&
			!strings.HasPrefix(a.Name, "RCCL_") {
			continue
		}
		if !slices.Contains(inherited, a.Name+"="+a.Value) {
			names = append(names, printable.Text(a.Name+"="+printable.Short(a.Value)))
		}
	}
	if names == nil {
		return r, false
	}
	slices.Sort(names)
	return doctor.Finding{
		Severity: doctor.Note, Text: "its own environment has " + strings.Join(names, ", ") +
			", which ranks there do not get: they inherit this host's; -x or nccl.conf sets it",
		Evidence: "the environment of its agent",
		Fix:      "grep -nEs '(NCCL|RCCL)_' /etc/environment /etc/profile.d/* ~/.bashrc ~/.profile ~/.ssh/environment",
	}, true
}
