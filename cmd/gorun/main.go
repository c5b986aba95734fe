// Command gorun starts a program as the ranks of one job, and ends them as one.
//
// It is thin on purpose: package dialect turns the words of the command line
// into a wish, package launcher fulfils it, and what stands here is what a user
// sees of both: help, errors, plans, exit codes.
//
// What gorun itself has to say goes to standard error, one line a thing, behind
// "gorun: "; standard output belongs to the ranks, and to what was asked for
// (help, version, completion, plan).
//
// The settings below spare the start what Go would do to follow a cgroup's quota:
// the launcher has no use for many threads.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/env"
	"gorun/internal/printable"
	"gorun/launcher"
	"gorun/launcher/job"
)

func main() {
	preventCoreDump()
	launcher.Main()
	reserveStack()
	startSlowly()
	os.Exit(gorun(os.Args[0], os.Args[1:], os.Stdout, os.Stderr))
}

// gorun understands one command line, does what it asks for, and returns the
// exit code.
func gorun(argv0 string, args []string, stdout, stderr io.Writer) int {
	around := surroundings()
	if len(args) > 0 && (dialect.ByName(argv0) == dialect.Gorun || joinsAsAgent(args)) {
		switch e := commandNamed(args[0]); {
		case e == nil:
		case e.name == "launch":
			argv0, args = "torch.distributed.launch", args[1:]
		default:
			return newCall(around, args[1:], stdout, stderr).do(*e)
		}
	}
	inv, err := dialect.Parse(argv0, args, around)
	switch {
	case err != nil:
		return explain(stderr, err)
	case inv.Print != nil:
		c := newCall(around, nil, stdout, stderr)
		return c.end(c.write(inv.Print()))
	}
	sayNotes(inv, stderr)
	return runJob(inv)
}

// surroundings is what of this process and host a command line may depend on. It takes the
// secret out of the environment, which whatever this process starts inherits.
func surroundings() dialect.Surroundings {
	token, given := os.LookupEnv(env.VarToken)
	_ = os.Unsetenv(env.VarToken) // it fails only for malformed names
	lookup := func(name string) (string, bool) {
		if name == env.VarToken {
			return token, given
		}
		return os.LookupEnv(name)
	}
	return dialect.Surroundings{
		Lookup: lookup, Names: variableNames, UID: os.Geteuid(),
		ReadFile: readList, ReadToken: readToken, IsThisHost: isThisHost, LookPath: exec.LookPath, Output: outputOf,
		IsUnknown:    isUnknown,
		HasInterface: hasInterface,
		Commands:     manuals,
	}
}

// variableNames are the names in the environment.
func variableNames() []string {
	names := os.Environ()
	for i, entry := range names {
		names[i], _, _ = strings.Cut(entry, "=")
	}
	return names
}

// say writes a line of gorun's own, in which nothing that somebody typed or
// named reaches the terminal as a control byte, or by the page.
func say(stderr io.Writer, text string) {
	// nowhere to complain about a lost complaint
	_, _ = fmt.Fprintf(stderr, "gorun: %s\n", printable.Text(printable.Short(text)))
}

// mostProblems bounds how many are told one by one: a host file that is none has one
// in each line.
const mostProblems = 20

// explain prints all problems of a command line and where to look next.
func explain(stderr io.Writer, err error) int {
	var usage *dialect.UsageError
	if !errors.As(err, &usage) {
		say(stderr, err.Error())
		return job.ExitLauncher
	}
	lines := usage.Lines()
	for _, line := range lines[:min(len(lines), mostProblems)] {
		say(stderr, line)
	}
	if more := len(lines) - mostProblems; more > 0 {
		say(stderr, fmt.Sprintf("and %d more like these", more))
	}
	if hint := usage.Hint(); hint != "" {
		say(stderr, hint)
	}
	return job.ExitUsage
}
