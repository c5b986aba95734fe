package launcher

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-multierror"

	"gorun/launcher/internal/output"
	"gorun/launcher/job"
)

// checkOutput checks the patterns for labels and file names.
func checkOutput(o job.OutputSpec) error {
	var all *multierror.Error
	if _, err := output.ParseTemplate(o.Template); err != nil {
		all = multierror.Append(all, err)
	}
	for _, p := range [][2]string{
		{"--prepend-pattern", o.Pattern},
		{"--outfile-pattern", o.StdoutFile},
		{"--errfile-pattern", o.StderrFile},
	} {
		if _, err := output.ParsePattern(p[1]); err != nil {
			all = multierror.Append(all, fmt.Errorf("%s %w", p[0], err))
		}
	}
	return all.ErrorOrNil()
}

// nameLogFiles implements OutputSpec.LogsByRank.
func (s *session) nameLogFiles() {
	o := &s.spec.Output
	if !o.LogsByRank || o.LogDir == os.DevNull {
		return
	}
	if o.LogDir != "" && !o.Tee.Any() {
		o.Tee = o.Redirect.Complement()
	}
	dir := o.LogDir
	if dir == "" {
		id := job.AtStart
		if !s.dryRun {
			id = strings.ToLower(rand.Text()[:8])
		}
		dir = filepath.Join(s.tempDir(), "gorun-"+id)
	}
	names := job.LogNames(dir)
	o.StdoutFile, o.StderrFile = names[0], names[1]
}

// collectSharedLogs has the head write files that ranks of several nodes share. On a shared file
// system each node would truncate the file of the others; without one each would have a part of it.
func (s *session) collectSharedLogs() {
	o := &s.spec.Output
	for _, name := range []string{o.StdoutFile, o.StderrFile} {
		p, err := output.ParsePattern(name)
		o.LogsToHead = o.LogsToHead || err == nil && name != "" && !p.VariesByNode()
	}
}

// Ranks find their error files by TORCHELASTIC_ERROR_FILE after --chdir, too.
func (s *session) makeLogPathsAbsolute() {
	o := &s.spec.Output
	for _, name := range []*string{&o.LogDir, &o.StdoutFile, &o.StderrFile} {
		if *name == "" {
			continue
		}
		if absolute, err := filepath.Abs(*name); err == nil { // in a removed directory creating the logs will fail
			*name = absolute
		}
	}
}
