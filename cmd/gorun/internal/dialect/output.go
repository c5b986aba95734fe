package dialect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/job"
)

// outputState holds options on output that only count together with others. A field named …From is the source of
// a switch.
type outputState struct {
	label         optionValue[string] // what lines begin with
	plainRankFrom string              // -l where it means --label always
	stampFrom     string              // --timestamp-output
	bracketedFrom string              // --output timestamp
	timestampFrom string              // --prepend-timestamp
	dirFrom       string              // names the files of both streams
	hidden        bool                // and shows nothing
	patternsFrom  []string            // name the files of one stream
	logs          []logOption
	layout        string // of log files: "gorun", "torchrun"; "" is the dialect's
}

// logOption is a torchrun option on log files.
type logOption struct {
	from  string
	level level
}

// isLog returns a setter of an option on log files, which options in other launchers' style override.
func (p *Line) isLog(set func(Arg) error) func(Arg) error {
	return func(a Arg) error {
		p.output.logs = append(p.output.logs, logOption{a.From, p.level})
		return set(a)
	}
}

// setLabel sets what lines begin with. Two different labels contradict each other.
func (p *Line) setLabel(a Arg, pattern string) error {
	if was := p.output.label; was.from != "" && was.value != pattern {
		return fmt.Errorf("contradicts %s", was.from)
	}
	p.output.label = optionValue[string]{pattern, a.From}
	return nil
}

// setPrependRank takes -l, which has the same label in Hydra on terminals, too.
func (p *Line) setPrependRank(a Arg) error {
	switch {
	case !a.On:
		return nil
	case p.dialect.slots == slotsOfHydra:
		return p.setLabel(a, "[%r] ")
	}
	p.output.plainRankFrom = a.From
	p.Spec.Output.Label = job.LabelAlways
	return nil
}

func (p *Line) setTag(a Arg) error {
	if !a.On {
		return nil
	}
	return p.setLabel(a, "[1,%r]<%s>:")
}

func (p *Line) setPrependPattern(a Arg) error {
	if err := notEmpty(a); err != nil {
		return err
	}
	return p.setLabel(a, a.Value)
}

// outputLabels are Open MPI 5's.
var outputLabels = map[string]string{"tag": "[1,%r]<%s>: ", "rank": "[%r]<%s>: "}

const noXML = "gorun writes no XML; use --tag-output to label each line with its rank and stream"

// refusedOutput are words of --output that gorun refuses.
var refusedOutput = map[string]string{
	"tag-detailed":  "labels have no process ids; use --prepend-pattern '[1,%r][%h]<%s>: '",
	"tag-fullname":  "jobs have no such name; use --prepend-pattern '[%h@1,%r]<%s>: '",
	"rank-detailed": "labels have no process ids; use --prepend-pattern '[%r][%h]<%s>: '",
	"rank-fullname": "jobs have no such name; use --prepend-pattern '[%h@%r]<%s>: '",
	"raw":           "gorun never mixes lines of ranks; with one rank bytes pass as they come",
	"xml":           noXML,
	"pattern":       "use --outfile-pattern and --errfile-pattern, whose places are written %r and %h",
}

// setOutput takes Open MPI 5's list of words.
func (p *Line) setOutput(a Arg) error {
	words := strings.Split(a.Value, ",")
	for _, word := range words {
		switch err := p.outputWord(a, word); {
		case err != nil && len(words) > 1:
			return fmt.Errorf("%s: %w", word, err)
		case err != nil:
			return err
		}
	}
	return nil
}

func (p *Line) outputWord(a Arg, word string) error {
	name, value, given := strings.Cut(word, "=")
	name = strings.ToLower(name)
	switch {
	case given && (name == "dir" || name == "directory"):
		return p.setOutputDir(a, p.asOpenMPI5(value))
	case given && (name == "file" || name == "filename"):
		return p.setFiles(a, p.asOpenMPI5(value), ".1.%r.out", ".1.%r.err")
	case given:
		return errors.New("it takes no value")
	case outputLabels[name] != "":
		return p.setLabel(a, outputLabels[name])
	case refusedOutput[name] != "":
		return errors.New(refusedOutput[name])
	case name == "timestamp":
		p.output.bracketedFrom = a.From
	case name == "merge" || name == "merge-stderr-to-stdout":
		p.Spec.Output.Merge = true
	default:
		return errors.New("not one of tag, rank, timestamp, merge, dir=DIR, file=NAME")
	}
	return nil
}

// asOpenMPI5 makes :nocopy the default under the name mpirun: files of Open MPI 5's options replace the output.
func (p *Line) asOpenMPI5(value string) string {
	if p.dialect.slots != slotsOfOpenMPI {
		return value
	}
	name, words, _ := strings.Cut(value, ":")
	return name + ":nocopy:" + words // the last word wins
}

// setOutputDir writes files in Open MPI 4's layout. 1 is the job.
func (p *Line) setOutputDir(a Arg, value string) error {
	return p.setFiles(a, value, "/1/rank.%R/stdout", "/1/rank.%R/stderr")
}

// setFiles writes both streams to files whose names begin with value and end with out and err.
func (p *Line) setFiles(a Arg, value, out, err string) error {
	name, words, _ := strings.Cut(value, ":")
	hidden := false
	for _, word := range strings.FieldsFunc(words, func(r rune) bool { return r == ':' || r == ',' }) {
		switch strings.ToLower(word) {
		case "copy", "tee":
			hidden = false
		case "nocopy":
			hidden = true
		case "nojobid": // exists in Open MPI 4's layout only
			out, err = strings.TrimPrefix(out, "/1"), strings.TrimPrefix(err, "/1")
		case "pattern":
			return errors.New(refusedOutput["pattern"])
		default:
			return fmt.Errorf("after the name come :nocopy and :nojobid, not :%s", word)
		}
	}
	if name == "" {
		return errors.New("the name is missing")
	}
	name = strings.ReplaceAll(name, "%", "%%")
	o := &p.Spec.Output
	if was := p.output.dirFrom; was != "" && o.StdoutFile != name+out {
		return fmt.Errorf("contradicts %s", was)
	}
	p.output.dirFrom, p.output.hidden = a.From, hidden
	o.StdoutFile, o.StderrFile = name+out, name+err
	return nil
}

// setFilePattern returns a setter of the name of one stream's files.
func (p *Line) setFilePattern(into *string) func(Arg) error {
	return func(a Arg) error {
		p.output.patternsFrom = append(p.output.patternsFrom, a.From)
		return Text(into)(a)
	}
}

func (p *Line) setDisplay(a Arg) error {
	for _, word := range strings.Split(strings.ToLower(a.Value), ",") {
		word, _, _ = strings.Cut(word, ":")
		switch strings.TrimPrefix(word, "cpus") {
		case "map", "map-devel", "mapdevel":
			p.Display.Map = true
		case "allocation", "allocation-devel":
			p.Display.Hosts = true
		case "bind", "bindings":
			p.reportBindings()
		case "topo":
			p.Spec.Place.Machine = true
		default:
			return fmt.Errorf("%s: not one of map, allocation, bindings, topo", word)
		}
	}
	return nil
}

func (p *Line) setReportBindings(a Arg) error {
	if a.On {
		p.reportBindings()
	}
	return nil
}

// reportBindings reports bindings; under the name mpirun in Open MPI's form, which scripts read.
func (p *Line) reportBindings() {
	if p.dialect.slots == slotsOfOpenMPI {
		p.Spec.Place.ReportOpenMPI = true
	} else {
		p.Spec.Place.Report = true
	}
}

// resolveOutput settles labels and files.
func (p *Line) resolveOutput() {
	out, s := &p.Spec.Output, &p.output
	if label := cmp.Or(s.label.from, s.stampFrom, s.bracketedFrom, s.timestampFrom); label != "" {
		out.Pattern = s.pattern()
		if out.Label == job.LabelNever {
			p.problem("%s and --label never contradict each other", label)
		}
		out.Label = job.LabelAlways
	}
	p.resolveFiles()
}

// pattern returns the label with the time before it, each if requested.
func (s *outputState) pattern() string {
	label := s.label.value
	if label == "" && s.plainRankFrom != "" {
		label = "[%r] "
	}
	time, alone := "%t", "<%s>:"
	switch {
	case s.bracketedFrom != "":
		time, alone = "[%t]", "<%s>: "
	case s.stampFrom == "" && s.timestampFrom == "":
		return label
	case s.stampFrom == "":
		return time + " " + label
	}
	switch {
	case label == "":
		return time + alone
	case strings.Contains(label, "<%s>"):
		return time + label
	}
	return time + " " + label
}

// resolveLogs settles the layout of log files, if there are any.
func (p *Line) resolveLogs() {
	out := &p.Spec.Output
	if out.LogDir == "" && !out.Redirect.Any() && !out.Tee.Any() {
		return
	}
	out.LogsByRank = p.output.layout == "gorun" || p.output.layout == "" && !p.dialect.python
	if out.LogsByRank && (out.DuplicateStdout != nil || out.DuplicateStderr != nil) {
		p.hint("--duplicate-stdout-filters and --duplicate-stderr-filters need --log-layout torchrun")
	}
}

// resolveFiles settles which streams go to files with the user's own names.
func (p *Line) resolveFiles() {
	out, s := &p.Spec.Output, &p.output
	named := s.patternsFrom
	if s.dirFrom != "" {
		named = slices.Insert(named, 0, s.dirFrom)
	}
	if len(named) == 0 {
		p.resolveLogs()
		return
	}
	if s.dirFrom != "" && len(named) > 1 {
		p.problem("%s and %s both name the files: keep one", named[0], named[1])
	}
	for _, log := range s.logs {
		if log.level == levelFlags {
			p.problem("%s contradicts %s, which names the files in another way: keep one", log.from, named[0])
		} else {
			p.hint("%s is ignored beside %s", log.from, named[0])
		}
	}
	if s.hidden && out.Merge {
		p.problem("%s: nothing is shown, so there is nothing to merge", s.dirFrom)
	}
	out.LogDir, out.Redirect, out.Tee = "", job.StreamMap{}, job.StreamMap{}
	streams := job.StreamMap{}
	if out.StdoutFile != "" {
		streams.All |= job.Stdout
	}
	if out.StderrFile != "" {
		streams.All |= job.Stderr
	}
	if s.dirFrom != "" && !s.hidden {
		out.Tee = streams
	} else {
		out.Redirect = streams
	}
}
