package main

import (
	"slices"
	"strings"

	"gorun/env/nccl"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/doctor"
)

// harmlessProblems are those of settings that change nothing for a job.
var harmlessProblems = []nccl.Problem{
	nccl.ProblemLegacy, nccl.ProblemDefault, nccl.ProblemDebugging, nccl.ProblemVersion, nccl.ProblemPrefix,
}

// lintHosts adds to a cluster what gorun lint finds in the settings that its ranks would have: those of this
// environment, which all ranks inherit, once, and those of configuration files to each host.
func lintHosts(c *doctor.Cluster, environ []string) {
	var l lintReport
	if l.chooseLibrary("") != nil {
		return
	}
	inherited := sortedSettings(environ)
	for _, f := range nccl.Lint(inherited, l.library) {
		c.Notes = append(c.Notes, doctorFinding(f))
	}
	for _, h := range c.Hosts {
		h.Notes = append(h.Notes, lintConf(h, inherited, l.library)...)
		h.Notes = append(h.Notes, notInherited(h, environ)...)
		if h.Here {
			_, unread := ownSettings(l.library.Kind)
			for _, f := range unread {
				h.Notes = append(h.Notes, doctorFinding(f))
			}
		}
	}
}

// lintConf checks the settings of a host's configuration files that no variable and no earlier file overrides.
func lintConf(h *doctor.Host, inherited []nccl.Assignment, local nccl.Found) (findings []doctor.Finding) {
	settings := slices.Clone(inherited)
	for _, file := range h.SettingsFiles {
		settings = addConf(settings, file)
	}
	if len(settings) == len(inherited) {
		return nil
	}
	library := local
	if kind := hostLibrary(h); kind != "" && local.Kind != "" && local.Kind != kind {
		library = nccl.Found{Kind: kind} // of unknown version
	}
	for _, f := range nccl.Lint(settings, library) {
		if f.File != "" {
			findings = append(findings, doctorFinding(f))
		}
	}
	return findings
}

// hostLibrary returns the library for a host's GPUs, "" if it is unknown.
func hostLibrary(h *doctor.Host) nccl.Library {
	switch {
	case h.NVIDIA != nil:
		return nccl.NCCL
	case h.AMD != nil:
		return nccl.RCCL
	}
	return ""
}

// doctorFinding converts a finding of nccl.Lint and adds a command that tells more.
func doctorFinding(f nccl.Finding) doctor.Finding {
	d := doctor.Finding{
		Severity: doctor.Warning, Text: printable.Text(f.Name + "=" + printable.Short(f.Value) + ": " + f.Text),
		Evidence: printable.Text(settingPlace(f.Assignment)),
		Fix:      "gorun explain " + shellwords.Quote(f.Name),
	}
	_, known := nccl.Lookup(f.Name)
	switch {
	case f.Name == "": // the finding is about a file
		d.Text, d.Evidence, d.Fix = printable.Text(f.File+": "+f.Text), "", "ls -lL "+shellwords.Quote(f.File)
	case known:
	case f.File != "":
		d.Fix = "grep -n -e " + shellwords.Quote(f.Name) + " " + shellwords.Quote(f.File)
	default:
		d.Fix = "unset " + shellwords.Quote(f.Name)
	}
	if slices.Contains(harmlessProblems, f.Problem) {
		d.Severity = doctor.Note
	}
	return d
}

// notInherited notes the settings of a host's own environment, such as its shells', that ranks there do not get.
func notInherited(h *doctor.Host, inherited []string) []doctor.Finding {
	var names []string
	for _, a := range nccl.Environ(h.Environ) {
		entry := a.Name + "=" + a.Value
		v, known := nccl.Lookup(a.Name)
		if known && v.Name == a.Name && (strings.HasPrefix(entry, "NCCL_") || strings.HasPrefix(entry, "RCCL_")) &&
			!slices.Contains(inherited, entry) {
			names = append(names, printable.Text(a.Name+"="+printable.Short(a.Value)))
		}
	}
	if names == nil {
		return nil
	}
	slices.Sort(names)
	return []doctor.Finding{{
		Severity: doctor.Note, Text: "its own environment has " + strings.Join(names, ", ") +
			", which ranks there do not get: they inherit this host's; -x or nccl.conf sets it",
		Evidence: "the environment of its agent",
		Fix:      "grep -nEs '(NCCL|RCCL)_' /etc/environment /etc/profile.d/* ~/.bashrc ~/.profile ~/.ssh/environment",
	}}
}
