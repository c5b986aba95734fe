package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gorun/env/nccl"
	"gorun/internal/printable"
	"gorun/launcher/job"
)

// lintSettings says what is wrong with settings, and returns the exit code.
func (o *envOptions) lintSettings() error {
	l := lintReport{files: o.files}
	err := l.chooseLibrary(o.library)
	var settings []nccl.Assignment
	switch {
	case err != nil:
	case o.files != nil:
		settings, err = settingsOf(o.files)
	default:
		settings, l.findings = settingsHere(l.library.Kind)
	}
	if err != nil {
		return failure{job.ExitUsage, err.Error()} // every cause is a word of the command line
	}
	l.findings, l.looked = append(nccl.Lint(settings, l.library), l.findings...), len(settings)
	err = o.show(l.json(), func() string { return l.text(o.Quiet) })
	if err == nil && len(l.findings) > 0 {
		return exitWith(exitFindings)
	}
	return err
}

// settingsOf are what files set.
func settingsOf(files []string) (all []nccl.Assignment, err error) {
	for _, file := range files {
		var text []byte
		if file == "-" {
			text, err = readText(os.Stdin)
		} else {
			text, err = readSome(file)
		}
		if err != nil {
			return nil, of("--lint", err)
		}
		all = append(all, nccl.ParseFile(file, text)...)
	}
	return all, nil
}

// settingsHere are what this environment sets and, of what it does not set, the files of
// the library. One that cannot be read is a finding, for the library goes on without it.
func settingsHere(kind nccl.Library) (all []nccl.Assignment, unread []nccl.Finding) {
	all = nccl.Environ(os.Environ())
	slices.SortFunc(all, func(a, b nccl.Assignment) int { return strings.Compare(a.Name, b.Name) })
	kinds := []nccl.Library{nccl.NCCL, nccl.RCCL}
	if kind != "" {
		kinds = []nccl.Library{kind}
	}
	for _, file := range confFilesHere(kinds...) {
		text, err := readConf(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			unread = append(unread, unreadable(file, err))
			continue
		}
		all = withFile(all, file, text)
	}
	return all, unread
}

// withFile adds what a file of a library's sets to settings of which none sets it: what comes first counts.
func withFile(settings []nccl.Assignment, file string, text []byte) []nccl.Assignment {
	set := make(map[string]bool)
	for _, a := range settings {
		set[a.Name] = true
	}
	for _, a := range nccl.Parse(nccl.FromConf, file, text) {
		if !set[a.Name] {
			set[a.Name] = true
			settings = append(settings, a)
		}
	}
	return settings
}

// unreadable is what is said of a file of settings that cannot be read here.
func unreadable(file string, err error) nccl.Finding {
	var of *fs.PathError
	if errors.As(err, &of) {
		err = of.Err
	}
	return nccl.Finding{
		Assignment: nccl.Assignment{Kind: nccl.FromConf, File: file}, Problem: nccl.ProblemUnreadable,
		Text:   "it cannot be read: " + err.Error() + "; the library goes on without it and says nothing",
		Advice: "Have it be a file that who runs jobs may read.",
	}
}

// lintReport is what --lint prints.
type lintReport struct {
	library  nccl.Found
	file     string // of the library
	none     bool   // --library none
	findings []nccl.Finding
	looked   int      // settings that there are
	files    []string // that were named
}

// chooseLibrary reads the library that is meant: the one that was named, none, or the
// first that a program would load here.
func (l *lintReport) chooseLibrary(named string) (err error) {
	switch named {
	case "none":
		l.none = true
		return nil
	case "":
		for _, file := range nccl.FindLibraries(os.DirFS("/"), os.Getenv, pythonPrefix()) {
			if l.library, err = readLibrary(file); err == nil {
				l.file = file
				return nil
			}
		}
		return nil // without one no version is known
	}
	l.file = named
	if l.library, err = readLibrary(named); err != nil {
		return of("--library", fmt.Errorf("%s: %w", named, err))
	}
	return nil
}

func readLibrary(file string) (nccl.Found, error) {
	f, err := os.Open(file)
	if err != nil {
		return nccl.Found{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nccl.Found{}, err
	}
	library, err := nccl.ReadLibrary(f, info.Size())
	if err == nil && library.Version.IsZero() && len(library.Names) == 0 {
		err = errors.New("it is no libnccl and no librccl")
	}
	return library, err
}

// pythonPrefix is the folder of the Python environment that a script would run in, ""
// where there is none: that of GORUN_PYTHON, of the active environment, or of the first
// python3 in PATH.
func pythonPrefix() string {
	if python := os.Getenv("GORUN_PYTHON"); python != "" {
		if path, err := exec.LookPath(python); err == nil {
			return filepath.Dir(filepath.Dir(path))
		}
	}
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if prefix := os.Getenv(name); filepath.IsAbs(prefix) {
			return prefix
		}
	}
	path, err := exec.LookPath("python3")
	if err != nil {
		return ""
	}
	if path, err = filepath.Abs(path); err != nil {
		return ""
	}
	return filepath.Dir(filepath.Dir(path))
}

// text is for people: what is wrong, each in a line and what follows from it below; then
// how much that was.
func (l *lintReport) text(findingsOnly bool) string {
	var b strings.Builder
	for _, f := range l.findings {
		fmt.Fprintf(&b, "%s: %s\n", printable.Text(whereOf(f.Assignment)), printable.Text(whatOf(f.Assignment)))
		for _, line := range wrapped(printable.Text(sentences(f.Text, f.Advice)), envWidth-4) {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	if findingsOnly {
		return b.String()
	}
	if len(l.findings) > 0 {
		b.WriteString("\n")
	}
	compared := "compared with no library: none was found"
	switch {
	case l.none:
		compared = "compared with no library"
	case l.file != "" && l.library.Text != "":
		compared = fmt.Sprintf("compared with %s %s, %s", l.library.Kind, l.library.Text, l.file)
	case l.file != "":
		compared = fmt.Sprintf("compared with %s, %s", l.library.Kind, l.file)
	}
	switch n := len(l.findings); n {
	case 0:
		if l.looked == 0 && l.files != nil {
			fmt.Fprintf(&b, "no settings are known in %s: scripts, batch scripts, Dockerfiles, Python programs, YAML, JSON "+
				"and nccl.conf are read\n", printable.Text(strings.Join(l.files, ", ")))
			break
		}
		fmt.Fprintf(&b, "nothing is wrong with %s; %s\n", counted(l.looked, "setting"), printable.Text(compared))
	default:
		fmt.Fprintf(&b, "%s in %s; %s\n", counted(n, "finding"), counted(l.looked, "setting"), printable.Text(compared))
	}
	return b.String()
}

// sentences joins what is wrong and what to do.
func sentences(text, advice string) string {
	if text != "" {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	if advice == "" {
		return text + "."
	}
	return text + ". " + advice
}

// whatOf is a setting for a line; of a file as a whole it says so.
func whatOf(a nccl.Assignment) string {
	if a.Name == "" {
		return "(the file)"
	}
	return nccl.Shown(a.Name) + "=" + nccl.Shown(a.Value)
}

// whereOf is where a setting stands: "train.sh:12".
func whereOf(a nccl.Assignment) string {
	switch {
	case a.File == "":
		return string(a.Kind)
	case a.Line == 0:
		return a.File
	case a.File == "-":
		return "standard input:" + strconv.Itoa(a.Line)
	}
	return a.File + ":" + strconv.Itoa(a.Line)
}

// lintJSON is what --lint found, for programs.
type lintJSON struct {
	Settings int            `json:"settings"`
	Library  *libraryJSON   `json:"library,omitempty"`
	Findings []nccl.Finding `json:"findings"`
}

type libraryJSON struct {
	Kind    string `json:"kind"`
	Version string `json:"version,omitempty"`
	File    string `json:"file"`
}

func (l *lintReport) json() lintJSON {
	j := lintJSON{Settings: l.looked, Findings: append([]nccl.Finding{}, l.findings...)}
	if l.file != "" {
		j.Library = &libraryJSON{string(l.library.Kind), l.library.Text, l.file}
	}
	return j
}
