package main

import (
	"os"
	"os/signal"
	"strings"
	"syscall"

	"gorun/launcher"
)

// agentCommand is gorun on a host that another gorun has reached; the word is how, none: as the head says.
func agentCommand(c *call) *command {
	r := &wordRequest{
		call: c, most: 1,
		refusal: "gorun agent is what gorun starts on other hosts; gorun ./agent starts a program of that name",
	}
	r.act = func(word string) error {
		if how, file, _ := strings.Cut(word, ":"); how == joinWord {
			return joinAgent(file)
		}
		return serveAgent()
	}
	return r.hidden()
}

// joinWord is the one by which a resource manager's command has gorun's agents come to their head: "join", or
// "join:FILE".
const joinWord = "join"

// joinsAsAgent reports whether words are those of such a command, under whatever name gorun was copied.
func joinsAsAgent(args []string) bool {
	return len(args) == 2 && args[0] == "agent" && (args[1] == joinWord || strings.HasPrefix(args[1], joinWord+":"))
}

func serveAgent() error {
	// never read: a login that ends must not end the agent before its ranks, which learn by its streams
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, syscall.SIGHUP, syscall.SIGPIPE)
	return launcher.ServeAgent(os.Stdin, os.Stdout, launcher.WithNVML(nvmlWorker()))
}

// reportedSignals are those that a resource manager may send to all processes of a job.
var reportedSignals = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGALRM, syscall.SIGXCPU,
}

// joinAgent is gorun on a node where a resource manager's command started it.
func joinAgent(file string) error {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // never read: ranks learn by its streams
	return launcher.JoinAgent(os.Stdin, file, launcher.WithNVML(nvmlWorker()),
		launcher.WithSignals(func(ch chan<- os.Signal) { signal.Notify(ch, reportedSignals...) }))
}
