package launcher

import (
	"cmp"
	"os"
	"time"

	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/internal/process"
	"gorun/launcher/job"
)

// mainCalled says that this program can become the guard of its jobs.
var mainCalled bool

// Main must be the first thing that the main function of a program calls which
// runs jobs. It returns at once, unless the process was started by the guard of
// a job whose launcher was killed: then it ends what is left of that job and
// exits.
func Main() {
	if process.EnterGuard() {
		os.Exit(0)
	}
	mainCalled = true
}

// Explain says in a few lines how a job failed; "" for one that succeeded.
func Explain(r *Result) string { return r.Report(diagnosis.SignalName) }

// ErrorFile is what torchrun leaves in the file that its own TORCHELASTIC_ERROR_FILE names, for
// whoever started it: the error file of the rank that failed first, with its exit code, or why
// the job ended if that was no rank's doing. It is nil where torchrun leaves nothing: after
// success, and of a rank that wrote no such file.
func ErrorFile(r *Result) []byte {
	switch {
	case r.ErrorFile != nil:
		return r.ErrorFile
	case r.ExitCode == 0 || r.Cause == job.CauseRank:
		return nil
	}
	report := cmp.Or(Explain(r), r.Text)
	if report == "" { // others have said it
		return nil
	}
	return diagnosis.NewErrorFile(cmp.Or(headline(r), r.Text), report, time.Now())
}
