package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gorun/cmd/gorun/internal/show"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/job"
	"gorun/launcher/quarantine"
)

// evidenceDir is a directory that gorun or PyTorch's flight recorder wrote.
type evidenceDir struct {
	dir   string
	index *evidenceIndex // nil: not gorun's
	files []string       // names
	dumps []int          // ranks of flight recorders' files
}

// pickle begins each file of a flight recorder.
const pickle = "\x80"

// openEvidence reads a directory; nil if it has no evidence.
func openEvidence(dir string) *evidenceDir {
	d := &evidenceDir{dir: dir}
	entries, _ := os.ReadDir(dir)
	numbered := regexp.MustCompile(`^[\w-]*?(\d+)$`) // as torchfrtrace
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		d.files = append(d.files, e.Name())
		number := numbered.FindStringSubmatch(e.Name())
		if number != nil && bytes.HasPrefix(d.read(e.Name()), []byte(pickle)) {
			rank, _ := strconv.Atoi(number[1])
			d.dumps = append(d.dumps, rank)
		}
	}
	slices.Sort(d.dumps)
	var index evidenceIndex
	if json.Unmarshal(d.read("index.json"), &index) == nil && index.Job != "" {
		d.index = &index
	}
	if d.index == nil && d.dumps == nil {
		return nil
	}
	return d
}

// maxEvidenceFile bounds what is read of one file, in bytes.
const maxEvidenceFile = 4 << 20

func (d *evidenceDir) read(name string) []byte {
	f, err := os.Open(filepath.Join(d.dir, name))
	if err != nil {
		return nil
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxEvidenceFile)) // what can be read
	return text
}

// text returns the lines of a text for the terminal.
func (d *evidenceDir) text(name string) (lines []string) {
	for line := range strings.Lines(string(d.read(name))) {
		lines = append(lines, printable.Text(strings.TrimRight(line, "\n")))
	}
	return lines
}

// logs returns all that programs and kernels printed.
func (d *evidenceDir) logs() io.Reader {
	var texts []io.Reader
	for _, name := range d.files {
		if name == "last-lines.txt" || strings.HasSuffix(name, "-kernel-log.txt") {
			texts = append(texts, bytes.NewReader(d.read(name)))
		}
	}
	return io.MultiReader(texts...)
}

// explainDir explains the evidence in a directory: the verdict, known errors, and what to look at.
func (o *explainOptions) explainDir(d *evidenceDir) error {
	e := explanation{source: d.dir}
	if err := e.scan(d.logs()); err != nil {
		return err
	}
	return o.printResult("errors", newErrorList(e.found), func() string {
		parts := []string{strings.Join(d.verdict(), "\n"), e.text(explainWidth(o.stdout)), strings.Join(d.hints(), "\n")}
		parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
		for i := range parts {
			parts[i] = strings.TrimSuffix(parts[i], "\n") + "\n"
		}
		return strings.Join(parts, "\n")
	})
}

// verdict returns the job's report or, without one, what its ranks did.
func (d *evidenceDir) verdict() (lines []string) {
	if d.index == nil {
		return nil
	}
	at := d.index.At.Local().Format(quarantine.TimeFormat)
	lines = []string{"job " + printable.Text(d.index.Job) + ", " + at}
	if !d.index.Complete {
		lines = append(lines, "incomplete: gorun was killed while it collected this, or still does")
	}
	for _, name := range []string{"report.txt", "stacks.txt"} {
		if text := d.text(name); len(text) > 0 {
			return append(lines, text...)
		}
	}
	return lines
}

// hints say what else to look at.
func (d *evidenceDir) hints() (lines []string) {
	look := func(name, text string) {
		lines = append(lines, fmt.Sprintf("  %s: %s", shellwords.Quote(filepath.Join(d.dir, name)), text))
	}
	for _, name := range d.files {
		n := len(d.text(name))
		switch {
		case strings.HasSuffix(name, "-kernel-log.txt") && n > 0:
			look(name, show.Count(n, "line")+" of the kernel since the start")
		case strings.HasSuffix(name, "-network-errors.txt") && n > 0:
			look(name, "errors or losses of the network, "+show.Count(n, "counter"))
		case strings.HasSuffix(name, "-core-files.txt") && n > 1:
			look(name, "where the cores of "+show.Count(n-1, "rank")+" are")
		case name == "stacks.txt" && n > 0:
			look(name, "what each rank did")
		case name == "last-lines.txt" && n > 0:
			look(name, "what ranks printed last")
		case name == "store-wait.json":
			look(name, "who waited in the store")
		}
	}
	if d.dumps != nil {
		command := "torchfrtrace " + shellwords.Quote(d.dir)
		var plan struct{ Ranks []json.RawMessage }
		if json.Unmarshal(d.read("plan.json"), &plan) != nil || len(plan.Ranks) != len(d.dumps) {
			command += " --allow-incomplete-ranks"
		}
		lines = append(lines, fmt.Sprintf("  PyTorch's flight recorder of ranks %s: `%s`", job.RankRanges(d.dumps), command))
	}
	if lines != nil {
		lines = append([]string{"look at"}, lines...)
	}
	return lines
}
