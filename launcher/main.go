package launcher

import (
	"cmp"
	"os"
	"time"

	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/internal/process"
	"gorun/launcher/job"
)

// mainCalled is set if this program can become the guard of its jobs.
var mainCalled bool

// Main must be the first call in the main function of a program that runs jobs. It returns at once
// unless this process is the guard of a job whose launcher was killed: then it ends the job and
// exits.
func Main() {
	if process.EnterGuard() {
		os.Exit(0)
	}
	mainCalled = true
}

// Explain describes in a few lines why a job failed; "" for a successful one.
func Explain(r *Result) string { return r.Report(diagnosis.SignalName, false) }

// ExplainBelow is Explain for the terminal that shows the output of the ranks: it leaves out what
// the failed rank printed there.
func ExplainBelow(r *Result) string { return r.Report(diagnosis.SignalName, true) }

// ErrorFile returns what torchrun writes to the file that its own TORCHELASTIC_ERROR_FILE names:
// the error file of the rank that failed first, with its exit code, or the reason if no rank
// failed. It returns nil where torchrun writes nothing: after success, and for a failed rank
// without an error file.
func ErrorFile(r *Result) []byte {
	switch {
	case r.ErrorFile != nil:
		return r.ErrorFile
	case r.ExitCode == 0 || r.Cause == job.CauseRank:
		return nil
	}
	report := cmp.Or(Explain(r), r.Text)
	if report == "" { // another process has reported it
		return nil
	}
	return diagnosis.NewErrorFile(cmp.Or(headline(r), r.Text), report, time.Now())
}
