package main

import (
	"os"
	"os/signal"
	"strings"
	"syscall"

	"gorun/launcher"
)

// agentCommand is gorun on a node of another gorun's job. Without a word, the launcher connected to its standard
// streams; with "join" or "join:FILE", a resource manager's command started it, and it dials in.
func agentCommand(c *commandLine) *command {
	r := &wordRequest{
		commandLine: c, atMost: 1,
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

const joinWord = "join"

// joinsAsAgent recognises the command line of an agent that dials in, by whatever name gorun was copied.
func joinsAsAgent(args []string) bool {
	return len(args) == 2 && args[0] == "agent" && (args[1] == joinWord || strings.HasPrefix(args[1], joinWord+":"))
}

func serveAgent() error {
	// the end of a login must not end the agent before its ranks, which notice by their streams
	discard(syscall.SIGHUP, syscall.SIGPIPE)
	return launcher.ServeAgent(os.Stdin, os.Stdout, launcher.Options{NVML: nvmlWorker()})
}

// discard ignores signals, unlike signal.Ignore without effect on the programs that this process starts.
func discard(signals ...os.Signal) { signal.Notify(make(chan os.Signal, 1), signals...) }

// reportedSignals are those that a resource manager may send to all processes of a job.
var reportedSignals = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGALRM, syscall.SIGXCPU,
}

func joinAgent(file string) error {
	discard(syscall.SIGPIPE)
	return launcher.JoinAgent(os.Stdin, file, launcher.Options{
		NVML: nvmlWorker(), Signals: func(ch chan<- os.Signal) { signal.Notify(ch, reportedSignals...) },
	})
}
