package launcher

import (
	"os"

	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/internal/process"
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
