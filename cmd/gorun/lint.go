package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/env/nccl"
	"gorun/internal/printable"
	"gorun/launcher/doctor"
	"gorun/launcher/job"
)

// lintOptions are those of gorun lint.
type lintOptions struct {
	*commandLine
	files   []string // "-" is standard input; without files: the environment and the libraries' own files
	library string   // a file, or "none"; "" is the one that would be loaded
}

func lintCommand(c *commandLine) *command {
	o := &lintOptions{commandLine: c}
	flags := c.group(dialect.GroupShown, o.libraryOption(), c.jsonOption("print the findings as JSON"), option{
		Names: "quiet q", Set: dialect.Switch(&c.Quiet), Help: "print only findings",
	})
	return &command{
		request: o,
		Command: cli.Command{
			Usage: "find wrong settings of NCCL and others in scripts and the environment",
			Description: "gorun lint finds settings of NCCL, RCCL and PyTorch that are misspelled, obsolete, invalid or " +
				"harmful: in scripts, batch scripts, Dockerfiles, Python programs, YAML, JSON and nccl.conf files, or in this " +
				"environment.",
			UsageText: "gorun lint [options] [FILE...]",
			Flags:     c.Flags(flags...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun lint job.sbatch Dockerfile", "check what these files set"},
				{"gorun lint -", "check standard input"},
				{"gorun lint", "check this environment and its nccl.conf files"},
				{"gorun lint --library libnccl.so.2 job.sh", "check what this version reads"},
			},
			Codes: []dialect.Example{
				{"0", "nothing is wrong; notes do not count"},
				{"1", "a warning"},
				{"2", "a mistake on the command line, or a file that cannot be read"},
				{"125", "gorun's own error"},
			},
			Last: "Explain a variable: gorun explain NCCL_IB_HCA. More: docs/nccl.md.",
		},
	}
}

func (o *lintOptions) libraryOption() option {
	return option{
		Names: "library", Value: "FILE", Set: dialect.Text(&o.library),
		Help: "compare with this libnccl.so, or with none (the one programs load)",
	}
}

func (o *lintOptions) check(words []string) { o.files = words }

func (o *lintOptions) run() error {
	l := lintReport{files: o.files, ascii: show.Style(o.stdout).ASCII}
	err := l.chooseLibrary(o.library)
	var settings []nccl.Assignment
	switch {
	case err != nil:
	case o.files != nil:
		settings, err = readSettings(o.files)
	default:
		settings, l.findings = ownSettings(l.library.Kind)
	}
	if err != nil {
		return exitError{job.ExitUsage, printable.Error(err)} // a file of the command line
	}
	l.findings = append(nccl.Lint(settings, l.library), l.findings...)
	l.settings = slices.DeleteFunc(settings, func(a nccl.Assignment) bool { // a script's own variables
		_, known := nccl.Lookup(a.Name)
		return !known && !slices.ContainsFunc(l.findings, func(f nccl.Finding) bool { return f.Name == a.Name })
	})
	err = o.printResult("lint", l.json(), func() string {
		return show.MessagesFor(o.stdout).Wrap(l.text(o.Quiet))
	})
	if err == nil && l.warnings() > 0 {
		return exitWith(exitFindings)
	}
	return err
}

func readSettings(files []string) (settings []nccl.Assignment, err error) {
	for _, file := range files {
		text, err := readScript(file)
		if err != nil {
			return nil, optionError("lint", err)
		}
		settings = append(settings, nccl.ParseFile(file, text)...)
	}
	return settings, nil
}

// readScript reads a file, or standard input ("-").
func readScript(name string) ([]byte, error) {
	const limit = 4 << 20
	f := os.Stdin
	if name != "-" {
		var err error
		if f, err = os.Open(name); err != nil {
			return nil, err
		}
		defer f.Close()
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && len(text) > limit {
		err = errors.New("more than 4 MiB: not a script")
	}
	return text, err
}

// ownSettings returns what this environment and, after it, the library's configuration files set. A file that cannot be
// read is a finding, since the library ignores it.
func ownSettings(kind nccl.Library) (settings []nccl.Assignment, unread []nccl.Finding) {
	settings = sortedSettings(os.Environ())
	kinds := []nccl.Library{kind}
	if kind == "" {
		kinds = []nccl.Library{nccl.NCCL, nccl.RCCL}
	}
	files, errs := readConf(kinds...)
	for _, file := range files {
		settings = addConf(settings, file)
	}
	for _, err := range errs {
		unread = append(unread, unreadableConf(err))
	}
	return settings, unread
}

func sortedSettings(environ []string) []nccl.Assignment {
	settings := nccl.Environ(environ)
	slices.SortFunc(settings, func(a, b nccl.Assignment) int { return strings.Compare(a.Name, b.Name) })
	return settings
}

func unreadableConf(err *fs.PathError) nccl.Finding {
	return nccl.Finding{
		Assignment: nccl.Assignment{Kind: nccl.FromConf, File: err.Path}, Problem: nccl.ProblemUnreadable,
		Text:   "cannot be read: " + err.Err.Error() + "; the library silently ignores it",
		Advice: "Make it readable for the users who run jobs.",
	}
}

type lintReport struct {
	library  nccl.Found
	file     string // the library's
	none     bool   // --library none
	findings []nccl.Finding
	ascii    bool
	settings []nccl.Assignment
	files    []string // of the command line
}

// chooseLibrary reads the library of --library, or the first that a program would load here, if any.
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
		return nil
	}
	l.file = named
	if l.library, err = readLibrary(named); err != nil {
		return optionError("--library", fmt.Errorf("%s: %w", named, err))
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
		err = errors.New("not an NCCL or RCCL library")
	}
	return library, err
}

// pythonPrefix returns the Python environment that a script would run in: that of GORUN_PYTHON, the active one, or that
// of the first python3 in PATH; "" if none exists.
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
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return ""
	}
	return filepath.Dir(filepath.Dir(path))
}

// warnings counts the findings that are more than notes.
func (l *lintReport) warnings() (n int) {
	for _, f := range l.findings {
		if doctorFinding(f).Severity != doctor.Note {
			n++
		}
	}
	return n
}

// text lists the findings, then says how many settings were compared with which library.
func (l *lintReport) text(findingsOnly bool) string {
	var b strings.Builder
	for _, f := range l.findings {
		what := "(the file)"
		if f.Name != "" {
			what = nccl.Shown(f.Name) + "=" + nccl.Shown(f.Value)
		}
		d := doctorFinding(f)
		fmt.Fprintf(&b, "%s %s: %s [%s]\n", severityMark(d.Severity, l.ascii), printable.Text(settingPlace(f.Assignment)),
			printable.Text(what), f.Problem)
		b.WriteString(show.Item("", printable.Wrap(sentences(f.Text, f.Advice), envWidth-4), 4))
		b.WriteString(fixLine(d.Fix) + "\n")
	}
	if findingsOnly {
		return b.String()
	}
	if len(l.findings) > 0 {
		b.WriteString("\n")
	}
	if len(l.settings) == 0 && l.files != nil {
		fmt.Fprintf(&b, "nothing to check: %s sets no variable of NCCL, PyTorch or MPI (gorun lint reads scripts, batch "+
			"scripts, Dockerfiles, Python programs, YAML, JSON and nccl.conf)\n", printable.Text(strings.Join(l.files, ", ")))
		return b.String()
	}
	compared := "no library: none was found"
	switch {
	case l.none:
		compared = "no library"
	case l.file != "":
		compared = show.Join(" ", string(l.library.Kind), l.library.Text) + ", " + l.file
	}
	found, names := "nothing is wrong with", ""
	switch warnings, notes := l.warnings(), len(l.findings)-l.warnings(); {
	case warnings > 0 && notes > 0:
		found = show.Count(warnings, "warning") + " and " + show.Count(notes, "note") + " in"
	case warnings > 0:
		found = show.Count(warnings, "warning") + " in"
	case notes > 0:
		found = show.Count(notes, "note") + " in"
	case len(l.settings) > 0:
		names = " (" + printable.Text(strings.Join(l.names(), ", ")) + ")"
	}
	text := fmt.Sprintf("%s %s%s; compared with %s", found, show.Count(len(l.settings), "setting"), names,
		printable.Text(compared))
	b.WriteString(strings.Join(printable.Wrap(text, envWidth), "\n") + "\n")
	return b.String()
}

// names returns the settings' names, each once.
func (l *lintReport) names() (names []string) {
	for _, a := range l.settings {
		if !slices.Contains(names, a.Name) {
			names = append(names, a.Name)
		}
	}
	return names
}

// sentences joins a problem and its advice.
func sentences(text, advice string) string {
	if text != "" {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return strings.TrimRight(text+". "+advice, " ")
}

// settingPlace says where a setting is: "train.sh:12".
func settingPlace(a nccl.Assignment) string {
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

type lintJSON struct {
	Settings int           `json:"setting_count"`     // number of settings that were read
	Library  *libraryJSON  `json:"library,omitempty"` // the one that programs load; absent if none is found
	Findings []findingJSON `json:"findings"`          // [] if nothing is wrong
}

// findingJSON is a finding with its severity, which doctor decides.
type findingJSON struct {
	nccl.Finding
	Severity doctor.Severity `json:"severity"` // "error", "warning" or "note"
}

type libraryJSON struct {
	Kind    string `json:"kind"`              // "NCCL" or "RCCL"
	Version string `json:"version,omitempty"` // such as "2.30.7"; absent if unknown
	File    string `json:"file"`              // path of the library that a program would load
}

func (l *lintReport) json() lintJSON {
	j := lintJSON{Settings: len(l.settings), Findings: []findingJSON{}}
	for _, f := range l.findings {
		j.Findings = append(j.Findings, findingJSON{f, doctorFinding(f).Severity})
	}
	if l.file != "" {
		j.Library = &libraryJSON{string(l.library.Kind), l.library.Text, l.file}
	}
	return j
}
