package launcher_test

import (
	"io"
	"os"

	"gorun/launcher"
)

// option sets some of a job's options.
type option = func(*launcher.Options)

// with returns the options that all of these set.
func with(list ...option) (o launcher.Options) {
	for _, set := range list {
		set(&o)
	}
	return o
}

func withOutput(stdout, stderr io.Writer) option {
	return func(o *launcher.Options) { o.Stdout, o.Stderr = stdout, stderr }
}

func withStdin(f *os.File) option { return func(o *launcher.Options) { o.Stdin = f } }

func withSignals(subscribe func(chan<- os.Signal)) option {
	return func(o *launcher.Options) { o.Signals = subscribe }
}

func withProgress(begin func(*launcher.Progress) func()) option {
	return func(o *launcher.Options) { o.Progress = begin }
}

func withNotices(f func(launcher.Notice) string) option {
	return func(o *launcher.Options) { o.Notices = f }
}
