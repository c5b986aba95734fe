// Command gorun starts a program as the ranks of one job.
//
// Package dialect parses the command line to a launcher.Spec, package launcher runs it, and this package prints help,
// errors, plans and results, and chooses the exit code. gorun's own messages go to standard error, one line each, with
// the prefix "gorun: ". Standard output belongs to the ranks, or to the result that the user asked for.
//
// The settings below spare the start-up what Go does to follow a cgroup's CPU quota, and MPTCP.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
//go:debug multipathtcp=0
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/internal/printable"
	"gorun/launcher"
	"gorun/launcher/job"
)

func main() {
	preventCoreDump()
	launcher.Main()
	startSingleThreaded()
	os.Exit(gorun(os.Args[0], os.Args[1:], os.Stdout, os.Stderr))
}

// gorun runs a command line and returns the exit code.
func gorun(argv0 string, args []string, stdout, stderr io.Writer) int {
	around := surroundings()
	isGorun := dialect.ByName(argv0) == dialect.Gorun
	if words, ok := helpWords(args); ok && isGorun {
		args = append([]string{"help"}, words...)
	}
	if len(args) > 0 && (isGorun || joinsAsAgent(args)) {
		switch e := findCommand(args[0]); {
		case e == nil:
		case e.name == "launch":
			argv0, args = "torch.distributed.launch", args[1:]
		case e.name == "run":
			argv0, args = dialect.Run.Name, args[1:]
		default:
			return newCommandLine(around, args[1:], stdout, stderr).execute(*e)
		}
	}
	inv, err := dialect.Parse(argv0, args, around)
	switch {
	case err != nil:
		return reportUsage(stderr, err)
	case inv.Print != nil:
		c := newCommandLine(around, nil, stdout, stderr)
		return c.reportErrors(c.print(inv.Print()))
	}
	printNotes(inv, stderr)
	return runJob(inv)
}

// notify writes one of gorun's own messages, with text from outside escaped and shortened.
func notify(stderr io.Writer, text string) {
	line := "gorun: " + printable.Text(printable.Short(text)) + "\n"
	_, _ = io.WriteString(stderr, show.MessagesFor(stderr).Wrap(line))
}

// printNotes prints the notes on a command line.
func printNotes(inv dialect.Invocation, stderr io.Writer) {
	if inv.Quiet {
		return
	}
	for _, note := range inv.Notes {
		notify(stderr, note)
	}
}

// maxProblems bounds how many problems are listed: a file that is no host file has one in each line.
const maxProblems = 20

// reportUsage prints all problems of a command line and where to look next, and returns the exit code.
func reportUsage(stderr io.Writer, err error) int {
	usage, ok := errors.AsType[*dialect.UsageError](err)
	if !ok {
		notify(stderr, printable.Error(err))
		return job.ExitLauncher
	}
	lines := usage.Lines()
	for _, line := range lines[:min(len(lines), maxProblems)] {
		notify(stderr, line)
	}
	if more := len(lines) - maxProblems; more > 0 {
		notify(stderr, fmt.Sprintf("and %d more like these", more))
	}
	if hint := usage.Hint(); hint != "" {
		notify(stderr, "hint: "+hint)
	}
	return job.ExitUsage
}
