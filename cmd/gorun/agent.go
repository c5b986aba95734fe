package main

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/launcher"
	"gorun/launcher/job"
)

// serveAgent is gorun on a host that another gorun has reached.
func serveAgent(_ dialect.Invocation, stderr io.Writer) int {
	deaf := make(chan os.Signal, 1) // never read: a login that ends must not end the agent before its ranks, which learn by its streams
	signal.Notify(deaf, syscall.SIGHUP, syscall.SIGPIPE)
	if err := launcher.ServeAgent(os.Stdin, os.Stdout, launcher.WithNVML(nvmlWorker())); err != nil {
		say(stderr, err.Error())
		return job.ExitLauncher
	}
	return 0
}
