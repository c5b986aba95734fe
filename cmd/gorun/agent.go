package main

import (
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/launcher"
	"gorun/launcher/job"
)

// serveAgent is gorun on a host that another gorun has reached.
func serveAgent(inv dialect.Invocation, stderr io.Writer) int {
	if how, file, _ := strings.Cut(inv.Wished, ":"); how == "join" {
		return joinAgent(file, stderr)
	}
	// never read: a login that ends must not end the agent before its ranks, which learn by its streams
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, syscall.SIGHUP, syscall.SIGPIPE)
	if err := launcher.ServeAgent(os.Stdin, os.Stdout, launcher.WithNVML(nvmlWorker())); err != nil {
		say(stderr, err.Error())
		return job.ExitLauncher
	}
	return 0
}

// reportedSignals are those that a resource manager may send to all processes of a job.
var reportedSignals = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGTSTP,
	syscall.SIGALRM, syscall.SIGXCPU,
}

// joinAgent is gorun on a node where a resource manager's command started it.
func joinAgent(file string, stderr io.Writer) int {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // never read: ranks learn by its streams
	err := launcher.JoinAgent(os.Stdin, file, launcher.WithNVML(nvmlWorker()),
		launcher.WithSignals(func(ch chan<- os.Signal) { signal.Notify(ch, reportedSignals...) }))
	if err != nil {
		say(stderr, err.Error())
		return job.ExitLauncher
	}
	return 0
}
