package launcher

import (
	"fmt"
	"path/filepath"

	"github.com/hashicorp/go-multierror"

	"gorun/launcher/internal/output"
	"gorun/launcher/job"
)

// checkOutput looks at what the user wrote in the small languages of labels and files.
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

// gatherLogs has files that ranks of several nodes share written at the head, as Hydra does. In a file system of
// all nodes each would empty the file that others write to, and where each has its own the file would be a part.
func (s *session) collectSharedLogs() {
	o := &s.spec.Output
	for _, name := range []string{o.StdoutFile, o.StderrFile} {
		p, err := output.ParsePattern(name)
		o.LogsToHead = o.LogsToHead || err == nil && name != "" && !p.TellsNodes()
	}
}

// placeLogs makes the paths of log files absolute: a rank finds its error file
// there by TORCHELASTIC_ERROR_FILE, wherever --chdir or itself has taken it.
func (s *session) makeLogPathsAbsolute() {
	o := &s.spec.Output
	for _, name := range []*string{&o.LogDir, &o.StdoutFile, &o.StderrFile} {
		if *name == "" {
			continue
		}
		if absolute, err := filepath.Abs(*name); err == nil { // in a removed directory making the logs will fail, and say so
			*name = absolute
		}
	}
}
