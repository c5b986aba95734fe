package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/registry"
)

func evidenceCommand(c *commandLine) *command {
	r := &jobsRequest{commandLine: c, command: "evidence"}
	r.act = r.evidence
	return r.define(cli.Command{
		Usage: "collect what all hosts know of a running job in a directory",
		Description: "gorun evidence writes plan, last lines, kernel logs, network counters, stacks and NCCL's status of a " +
			"job that runs or hangs into a new directory. The ranks keep running, and secrets are hidden.",
		Flags: c.Flags(c.group(dialect.GroupShown, option{
			Names: []string{"dir"}, Value: "DIR", Help: "write into DIR (gorun-evidence-JOB)", Set: dialect.Text(&r.dir),
		})...),
	}, "it was collected", noJobText,
		dialect.Example{"gorun evidence", "the only running job"},
		dialect.Example{"gorun evidence 7f3a --dir hang1", "a job, into hang1"})
}

// Bounds of collecting evidence.
const (
	evidenceTimeout = time.Minute
	maxEvidence     = 64 << 20 // bytes of all files
)

// evidenceFile is an entry of index.json.
type evidenceFile struct {
	Name  string `json:"name"`            // of the file
	Bytes int    `json:"bytes"`           // that it has
	Cut   bool   `json:"cut,omitempty"`   // it would have more
	Error string `json:"error,omitempty"` // why it does not exist
}

// evidenceIndex is the document of index.json.
type evidenceIndex struct {
	Job   string         `json:"job"`   // id
	At    time.Time      `json:"at"`    // when it was collected
	Files []evidenceFile `json:"files"` // in the order in which they came
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
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return printable.Unwritten(r.dir, err)
	}
	index, left := evidenceIndex{Job: h.ID, At: time.Now()}, maxEvidence
	for {
		var f registry.File
		if err := response.Next(&f); err != nil || f.Name == "" { // what came before the end of the job remains
			break
		}
		f.Name = strings.ReplaceAll(printable.Text(f.Name), "/", "_")
		entry := evidenceFile{Name: f.Name, Bytes: min(len(f.Text), left), Cut: len(f.Text) > left, Error: f.Error}
		index.Files, left = append(index.Files, entry), left-entry.Bytes
		if f.Error != "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(r.dir, f.Name), f.Text[:entry.Bytes], 0o600); err != nil {
			return printable.Unwritten(r.dir, err)
		}
	}
	var text strings.Builder
	if err := show.JSON(&text, "evidence", index); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.dir, "index.json"), []byte(text.String()), 0o600); err != nil {
		return printable.Unwritten(r.dir, err)
	}
	dir := shellwords.Quote(r.dir)
	return r.print(fmt.Sprintf("%s: %s\n`cat %s/*.txt | gorun explain -` finds known errors\n", dir,
		show.Count(len(index.Files), "file"), dir))
}
