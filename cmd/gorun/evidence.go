package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/record"
	"gorun/launcher/registry"
)

func evidenceCommand(c *commandLine) *command {
	r := &jobsRequest{commandLine: c, command: "evidence"}
	r.act = func() error { return r.runningOrPast(r.evidence, r.pastEvidence) }
	return r.define(cli.Command{
		Usage: "collect what all hosts know of a job in a directory",
		Description: "gorun evidence writes plan, last lines, stacks, kernel logs, network errors, NCCL's status and " +
			"files of PyTorch's flight recorder of a job that runs or hangs into a new directory. The ranks keep running, and " +
			"secrets are hidden. Of a job that has ended it shows what was kept, or copies it to DIR.",
		UsageText: "gorun evidence [options] [JOB|last]",
		Flags: c.Flags(c.group(dialect.GroupShown, option{
			Names: "dir", Value: "DIR", Help: "write into DIR (gorun-evidence-JOB)", Set: dialect.Text(&r.dir),
		})...),
	}, "it was collected", noJobText,
		dialect.Example{"gorun evidence", "the only running job"},
		dialect.Example{"gorun evidence 7f3a --dir hang1", "a job, into hang1"},
		dialect.Example{"gorun evidence last", "of the last job that has ended"})
}

// Bounds of collecting evidence.
const (
	evidenceTimeout = time.Minute
	maxEvidence     = 64 << 20 // bytes of all files
	maxJobEvidence  = 20 << 20 // of those that a job keeps of a failure or hang by itself
	maxCollections  = 4        // of a job
)

// evidenceFile is an entry of index.json.
type evidenceFile struct {
	Name  string `json:"name"`            // of the file
	Bytes int    `json:"bytes"`           // that it has; there are no empty files
	Cut   bool   `json:"cut,omitempty"`   // it would have more
	Error string `json:"error,omitempty"` // why it does not exist
}

// evidenceIndex is the document of index.json.
type evidenceIndex struct {
	Job   string         `json:"job"`   // id
	At    time.Time      `json:"at"`    // when it was collected
	Files []evidenceFile `json:"files"` // in the order in which they came
	// Complete is false while it is collected, and remains so if gorun is killed meanwhile.
	Complete bool `json:"complete"`
}

// evidenceWriter writes files into a new directory, at most left bytes.
type evidenceWriter struct {
	dir   string
	index evidenceIndex
	left  int
}

func newEvidenceWriter(dir, job string, limit int) (*evidenceWriter, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, printable.Unwritten(dir, err)
	}
	w := &evidenceWriter{dir, evidenceIndex{Job: job, At: time.Now(), Files: []evidenceFile{}}, limit}
	return w, w.writeIndex()
}

func (w *evidenceWriter) add(f registry.File) error {
	f.Name = strings.ReplaceAll(printable.Text(f.Name), "/", "_")
	entry := evidenceFile{Name: f.Name, Bytes: min(len(f.Text), w.left), Cut: len(f.Text) > w.left, Error: f.Error}
	if entry.Cut && !strings.HasSuffix(f.Name, ".txt") { // a part of it is of no use
		entry.Bytes = 0
	}
	w.index.Files, w.left = append(w.index.Files, entry), w.left-entry.Bytes
	if entry.Bytes == 0 {
		return nil
	}
	return w.write(f.Name, f.Text[:entry.Bytes])
}

func (w *evidenceWriter) write(name string, text []byte) error {
	if err := os.WriteFile(filepath.Join(w.dir, name), text, 0o600); err != nil {
		return printable.Unwritten(w.dir, err)
	}
	return nil
}

func (w *evidenceWriter) close() error {
	w.index.Complete = true
	return w.writeIndex()
}

func (w *evidenceWriter) writeIndex() error {
	var text strings.Builder
	if err := show.JSON(&text, "evidence", w.index); err != nil {
		return err
	}
	return w.write("index.json", []byte(text.String()))
}

// jobEvidence keeps the evidence of a job's failures, hangs and suspicions beside its record. What cannot be written is
// lost: the job is what matters.
type jobEvidence struct {
	job    string     // id
	mu     sync.Mutex // guards what follows
	number int        // of directories
	last   *evidenceWriter
	bytes  int // in them
}

// begin implements the Evidence of [launcher.Options].
func (e *jobEvidence) begin() func(registry.File) {
	e.mu.Lock()
	defer e.mu.Unlock()
	records := recordsDir()
	dir := filepath.Join(record.Dir(records, e.job), "evidence")
	if e.number++; e.number > 1 {
		dir += fmt.Sprint("-", e.number)
	}
	if records == "" || e.number > maxCollections || os.MkdirAll(filepath.Dir(dir), 0o700) != nil {
		return nil
	}
	w, err := newEvidenceWriter(dir, e.job, maxJobEvidence-e.bytes)
	if err != nil {
		return nil
	}
	e.last = w
	return func(f registry.File) {
		if f.Name != "" {
			_ = w.add(f)
			return
		}
		_ = w.close()
		e.mu.Lock()
		defer e.mu.Unlock()
		e.bytes = maxJobEvidence - w.left
	}
}

// report adds the job's report to the last directory.
func (e *jobEvidence) report(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last != nil && text != "" {
		_ = e.last.write("report.txt", []byte(text))
	}
}

func (r *jobsRequest) evidence() error {
	h, err := r.responsiveJob()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), evidenceTimeout)
	defer cancel()
	response, err := h.Do(ctx, registry.Request{Kind: registry.EvidenceRequest})
	if err != nil {
		return err
	}
	defer response.Close()
	if r.dir == "" {
		r.dir = "gorun-evidence-" + h.ID
	}
	w, err := newEvidenceWriter(r.dir, h.ID, maxEvidence)
	if err != nil {
		return err
	}
	var broken error
	for err == nil {
		var f registry.File
		if broken = response.Next(&f); broken != nil || f.Name == "" {
			break
		}
		err = w.add(f)
	}
	w.index.Complete = broken == nil
	if err == nil {
		err = w.writeIndex()
	}
	if err != nil {
		return err
	}
	if broken != nil { // what came before the end of the job remains
		r.notify("not all came: the job ended meanwhile, or did not answer within " + evidenceTimeout.String())
	}
	dir := shellwords.Quote(r.dir)
	return r.print(fmt.Sprintf("%s: %s\n`gorun explain %s` explains them\n", dir,
		show.Count(len(w.index.Files), "file"), dir))
}

// evidenceDirs are the directories that a job has kept.
func evidenceDirs(rec record.Record) (dirs []string) {
	dir := record.Dir(recordsDir(), rec.ID)
	names, _ := fs.Glob(os.DirFS(dir), "evidence*") // the pattern is good; dir may be none
	for _, name := range names {
		dirs = append(dirs, filepath.Join(dir, name))
	}
	return dirs
}

func evidenceLines(dirs []string) (lines []string) {
	for _, dir := range dirs {
		lines = append(lines, "evidence: `gorun explain "+shellwords.Quote(dir)+"`")
	}
	return lines
}

// pastEvidence shows where the evidence of a job that has ended is, or copies it to --dir.
func (r *jobsRequest) pastEvidence() error {
	rec, err := r.past()
	if err != nil {
		return err
	}
	dirs := evidenceDirs(rec)
	if len(dirs) == 0 {
		return noJob("job %s has no evidence: %s", rec.ID, printable.Text(ending(rec)))
	}
	for i, dir := range dirs {
		if r.dir == "" {
			break
		}
		dirs[i] = r.dir + strings.TrimPrefix(filepath.Base(dir), "evidence")
		if err = os.Mkdir(dirs[i], 0o700); err == nil {
			err = os.CopyFS(dirs[i], os.DirFS(dir))
		}
		if err != nil {
			return printable.Unwritten(dirs[i], err)
		}
	}
	return r.printLines(evidenceLines(dirs))
}
