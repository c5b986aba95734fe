package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/job"
)

// printGiven is what options of mpirun and mpiexec said about the ranks' output that counts only together with
// something else.
type printGiven struct {
	label     Arg    // what is to stand before lines
	pattern   string // that is it
	plainRank Arg    // -l where it is --label always
	stamp     Arg    // --timestamp-output of Open MPI 4
	bracketed Arg    // --output timestamp of Open MPI 5
	timestamp Arg    // --prepend-timestamp
	dir       Arg    // the option that gives files of both streams
	hidden    bool   // they alone have them
	patterns  []Arg  // options that name files of one stream
	logs      []logGiven
}

// logGiven is an option of torchrun's about log files, and how strong it is.
type logGiven struct {
	from  string
	level level
}

// takesLogs has an option about log files remembered, since others say where these are, too.
func (p *Line) takesLogs(set func(Arg) error) func(Arg) error {
	return func(a Arg) error {
		p.print.logs = append(p.print.logs, logGiven{a.From, p.level})
		return set(a)
	}
}

// setLabel takes what lines are to begin with; two of that contradict each other.
func (p *Line) setLabel(a Arg, pattern string) error {
	if !a.On {
		return nil
	}
	if was := p.print.label.From; was != "" && p.print.pattern != pattern {
		return fmt.Errorf("contradicts %s", was)
	}
	p.print.label, p.print.pattern = a, pattern
	return nil
}

// setPrependRank takes -l, which Hydra has the same on terminals.
func (p *Line) setPrependRank(a Arg) error {
	if !a.On {
		return nil
	}
	if p.dialect.slots == slotsOfHydra {
		return p.setLabel(a, "[%r] ")
	}
	p.print.plainRank = a
	p.Spec.Output.Label = job.LabelAlways
	return nil
}

func (p *Line) setTag(a Arg) error { return p.setLabel(a, tagLabel) }

func (p *Line) setPrependPattern(a Arg) error {
	if a.Value == "" {
		return errors.New("the value is empty")
	}
	a.On = true
	return p.setLabel(a, a.Value)
}

// tagLabel is Open MPI 4's --tag-output.
const tagLabel = "[1,%r]<%s>:"

// fiveLabels are Open MPI 5's.
var fiveLabels = map[string]string{"tag": "[1,%r]<%s>: ", "rank": "[%r]<%s>: "}

// noXML refuses Open MPI's output in XML.
const noXML = "gorun writes no XML; use --tag-output, which says whose line it is and of which stream"

// fiveRefused are words of --output that gorun cannot do.
var fiveRefused = map[string]string{
	"tag-detailed":  "labels have no process ids; use --prepend-pattern '[1,%r][%h]<%s>: '",
	"tag-fullname":  "jobs have no such name; use --prepend-pattern '[%h@1,%r]<%s>: '",
	"rank-detailed": "labels have no process ids; use --prepend-pattern '[%r][%h]<%s>: '",
	"rank-fullname": "jobs have no such name; use --prepend-pattern '[%h@%r]<%s>: '",
	"raw":           "lines of ranks are never mixed; with one rank bytes pass as they come",
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
		return p.setOutputFile(a, p.asOpenMPI5(value))
	case given:
		return errors.New("it takes no value")
	case fiveLabels[name] != "":
		a.On = true
		return p.setLabel(a, fiveLabels[name])
	case fiveRefused[name] != "":
		return errors.New(fiveRefused[name])
	case name == "timestamp":
		p.print.bracketed = a
	case name == "merge" || name == "merge-stderr-to-stdout":
		p.Spec.Output.Merge = true
	default:
		return errors.New("not one of tag, rank, timestamp, merge, dir=DIR, file=NAME")
	}
	return nil
}

// asOpenMPI5 has files of Open MPI 5's own options alone have the output, called as its mpirun.
func (p *Line) asOpenMPI5(value string) string {
	if p.dialect.slots != slotsOfOpenMPI {
		return value
	}
	name, words, _ := strings.Cut(value, ":")
	return name + ":nocopy:" + words // what stands behind counts
}

// setOutputDir takes Open MPI 4's layout of files, in which 1 stands for the job.
func (p *Line) setOutputDir(a Arg, value string) error {
	return p.setFiles(a, value, "/1/rank.%R/stdout", "/1/rank.%R/stderr")
}

// setOutputFile takes Open MPI 5's, in which 1 stands for its name of the job.
func (p *Line) setOutputFile(a Arg, value string) error {
	return p.setFiles(a, value, ".1.%r.out", ".1.%r.err")
}

// setFiles has both streams written to files whose names begin with value.
func (p *Line) setFiles(a Arg, value, out, err string) error {
	name, words, _ := strings.Cut(value, ":")
	hidden := false
	for _, word := range strings.FieldsFunc(words, func(r rune) bool { return r == ':' || r == ',' }) {
		switch strings.ToLower(word) {
		case "copy", "tee":
			hidden = false
		case "nocopy":
			hidden = true
		case "nojobid":
			// in the layout of a folder, where Open MPI 4 has the word
			out, err = strings.TrimPrefix(out, "/1"), strings.TrimPrefix(err, "/1")
		case "pattern":
			return errors.New(fiveRefused["pattern"])
		default:
			return fmt.Errorf("behind the name stand :nocopy and :nojobid, not :%s", word)
		}
	}
	if name == "" {
		return errors.New("the name is missing")
	}
	name = strings.ReplaceAll(name, "%", "%%")
	o := &p.Spec.Output
	if was := p.print.dir.From; was != "" && o.StdoutFile != name+out {
		return fmt.Errorf("contradicts %s", was)
	}
	p.print.dir, p.print.hidden = a, hidden
	o.StdoutFile, o.StderrFile = name+out, name+err
	return nil
}

// setFilePattern takes the name of one stream's files.
func (p *Line) setFilePattern(into *string) func(Arg) error {
	return func(a Arg) error {
		p.print.patterns = append(p.print.patterns, a)
		return text(into, a)
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

// reportBindings has it said where each rank is: called mpirun in Open MPI's words, which scripts read.
func (p *Line) reportBindings() {
	if p.dialect.slots == slotsOfOpenMPI {
		p.Spec.Place.ReportOpenMPI = true
	} else {
		p.Spec.Place.Report = true
	}
}

// finishOutput settles what is printed and how.
func (p *Line) finishOutput() {
	p.finishLabel()
	p.finishFiles()
}

// finishLabel puts together what lines begin with.
func (p *Line) finishLabel() {
	out, given := &p.Spec.Output, &p.print
	labels := slices.DeleteFunc([]Arg{given.label, given.stamp, given.bracketed, given.timestamp}, func(a Arg) bool {
		return a.From == ""
	})
	if len(labels) == 0 {
		return
	}
	out.Pattern = given.stamped()
	if out.Label == job.LabelNever {
		p.problem("%s and --label never contradict each other", labels[0].From)
	}
	out.Label = job.LabelAlways
}

// stamped is the label with the time before it, as far as each was asked for.
func (g *printGiven) stamped() string {
	label := g.pattern
	if label == "" && g.plainRank.From != "" {
		label = "[%r] "
	}
	time, alone := "%t", "<%s>:"
	switch {
	case g.bracketed.From != "":
		time, alone = "[%t]", "<%s>: "
	case g.stamp.From == "" && g.timestamp.From == "":
		return label
	case g.stamp.From == "":
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

// finishFiles settles which streams go to files with names of the user's own.
func (p *Line) finishFiles() {
	out, given := &p.Spec.Output, &p.print
	named := slices.Concat([]Arg{given.dir}, given.patterns)
	if given.dir.From == "" {
		named = given.patterns
	}
	if len(named) == 0 {
		return
	}
	if given.dir.From != "" && len(named) > 1 {
		p.problem("%s and %s both name the files: keep one", named[0].From, named[1].From)
	}
	for _, log := range given.logs {
		if log.level == levelFlags {
			p.problem("%s contradicts %s, which names the files in another way: keep one", log.from, named[0].From)
		} else {
			p.hint(log.from + " does not count beside " + named[0].From)
		}
	}
	if given.hidden && out.Merge {
		p.problem("%s: nothing is shown, so that there is nothing to merge", given.dir.From)
	}
	out.LogDir, out.Redirect, out.Tee = "", job.StreamMap{}, job.StreamMap{}
	streams := job.StreamMap{}
	if out.StdoutFile != "" {
		streams.All |= job.Stdout
	}
	if out.StderrFile != "" {
		streams.All |= job.Stderr
	}
	if given.dir.From != "" && !given.hidden {
		out.Tee = streams
	} else {
		out.Redirect = streams
	}
}
