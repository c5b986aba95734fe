package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/hold"
	"gorun/env"
	"gorun/launcher"
	"gorun/launcher/job"
)

// runJob runs the wished job, or prints its plan, and returns the exit code.
func runJob(inv dialect.Invocation) int {
	var planned *job.Plan
	options := append(hostOptions(inv),
		launcher.WithStdin(os.Stdin), launcher.WithOutput(os.Stdout, os.Stderr),
		launcher.WithPlanned(func(p *job.Plan) {
			planned = p
			showPlanned(inv, p)
		}), launcher.WithNVML(nvmlWorker()), launcher.WithColour(wantColour()), launcher.WithASCII(!hasUTF8(os.Getenv)))
	if inv.DryRun {
		return dryRun(inv, options)
	}
	if !inv.Unlisted {
		options = append(options, launcher.WithRegistry(jobPlaces()))
	}
	hurry(&inv.Spec)
	errorFile := os.Getenv(env.VarTorchelasticErrorFile)
	if j := inv.Spec.Join; j != nil && j.Task != nil && j.Task.Rank > 0 { // rank 0's gorun writes those files
		inv.Report, errorFile = "", ""
	}
	err := of("--report", canWrite(inv.Report))
	for option, path := range map[string]string{
		"--report-uri": inv.Display.URI, "--output-proctable": inv.Display.Processes,
	} {
		if err == nil && path != "+" {
			err = of(option, canWrite(path))
		}
	}
	if err == nil {
		err = of("--report-pid", writeWhere(inv.Display.PID, fmt.Sprintln(os.Getpid())))
	}
	if err != nil {
		return beginFailed(err).ExitCode
	}
	if inv.Display.Processes != "" {
		options = append(options, launcher.WithStarted(func(p *job.Plan, pids []int) {
			tellWritten("--output-proctable", writeWhere(inv.Display.Processes, processTable(p, pids)))
		}))
	}
	heard := signals(inv.Spec.SignalsToHandle)
	options = append(options, launcher.AsWholeProcess(), launcher.WithSignalsHeld(func() { hold.From(heard) }),
		launcher.WithSignals(func(ch chan<- os.Signal) { signal.Notify(ch, heard...); hold.Until(ch) }))
	result, err := launcher.Run(context.Background(), inv.Spec, options...)
	if err != nil {
		result = beginFailed(suggestCommand(err, inv.Spec))
	} else {
		if inv.Display.ExitCodes && planned != nil {
			_ = writeWhere("-", exitCodes(planned, result.Ranks)) // nowhere to complain
		}
		_, _ = os.Stderr.WriteString(launcher.Explain(result)) // nowhere to complain about a lost complaint
	}
	// A gorun that is a rank may end before the outer one has made the file's directory.
	err = replaceFile(errorFile, launcher.ErrorFile(result))
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && os.Getenv(env.VarRank) != "") {
		say(os.Stderr, env.VarTorchelasticErrorFile+": "+err.Error())
	}
	return report(inv.Report, result)
}

func dryRun(inv dialect.Invocation, options []launcher.Option) int {
	p, err := launcher.Plan(context.Background(), inv.Spec, options...)
	if err != nil {
		return beginFailed(suggestCommand(err, inv.Spec)).ExitCode
	}
	if err := writePlan(os.Stdout, p, inv.JSON); err != nil {
		say(os.Stderr, err.Error())
		return job.ExitLauncher
	}
	return 0
}

// suggestCommand adds to the error of a program that is nowhere the command of gorun that its name may stand for.
func suggestCommand(err error, spec launcher.Spec) error {
	e, ok := errors.AsType[*launcher.Error](errorsOf(err)[0])
	if !ok || e.Code != job.ExitNotFound || e.Hint != "" || len(spec.Apps) != 1 || spec.Apps[0].Start != job.StartAuto {
		return err
	}
	if command := dialect.CommandFor(spec.Apps[0].Program, commandNames()); command != "" {
		e.Hint = "try " + command
	}
	return err
}

// beginFailed prints why a job could not begin, all reasons of it, and says the
// same as a result.
func beginFailed(err error) *launcher.Result {
	result := &launcher.Result{Cause: job.CauseStart, ExitCode: job.ExitLauncher, Text: err.Error()}
	list := errorsOf(err)
	for _, line := range reasons(list) {
		say(os.Stderr, line)
	}
	if e, ok := errors.AsType[*launcher.Error](list[0]); ok {
		result.ExitCode, result.Text, result.Hint = e.Code, e.Text, e.Hint
	}
	return result
}

// reasons are the lines that tell of errors, each with its hint behind it: once for hosts
// that all lack the same.
func reasons(list []error) (lines []string) {
	hint := func(i int) string {
		if e, ok := errors.AsType[*launcher.Error](list[i]); ok {
			return e.Hint
		}
		return ""
	}
	for i, err := range list {
		lines = append(lines, err.Error())
		if h := hint(i); h != "" && (i+1 == len(list) || hint(i+1) != h) {
			for line := range strings.Lines(h) {
				lines = append(lines, "hint: "+strings.TrimSpace(line))
			}
		}
	}
	return lines
}

// standardOutput is the name of a report's file for which this process's own output is meant.
const standardOutput = "-"

// canWrite makes the report's file, so that a place where it cannot be is known
// before the job has run for days. It is empty until the end: should this process
// be killed, nobody takes an earlier job's report for this one's.
func canWrite(path string) error {
	if path == "" || path == standardOutput {
		return nil
	}
	// #nosec G302 -- what the umask leaves is the user's choice
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	return f.Close()
}

// replaceFile writes a file so that nobody reads a part of it. What is no regular file, or
// stands where no other can take its place, such as a file that a container engine mounts, is
// written to as it is.
func replaceFile(path string, text []byte) error {
	if path == "" || text == nil {
		return nil
	}
	write := func(name string, how int) error {
		// #nosec G302 G304 -- what the umask leaves is the user's choice, and so is the file
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|how, 0o666)
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return errors.Join(err, f.Close())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().IsRegular() {
		part := fmt.Sprintf("%s.%d", path, os.Getpid())
		err := write(part, os.O_EXCL)
		if err == nil {
			err = os.Rename(part, path)
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrExist) { // somebody else's
			_ = os.Remove(part)
		}
	}
	return write(path, os.O_TRUNC|syscall.O_NONBLOCK)
}

// report writes the result as data where that was asked for, and returns the
// exit code.
func report(path string, result *launcher.Result) int {
	if path == "" {
		return result.ExitCode
	}
	text, err := json.MarshalIndent(result, "", "  ")
	switch text = append(text, '\n'); {
	case err != nil:
	case path == standardOutput:
		_, err = os.Stdout.Write(text)
	default:
		err = os.WriteFile(path, text, 0o666) // #nosec G306 -- what the umask leaves is the user's choice
	}
	if err != nil {
		say(os.Stderr, fmt.Sprintf("--report: %v", err))
		if result.ExitCode == 0 {
			return job.ExitLauncher
		}
	}
	return result.ExitCode
}

// notices prints what the launcher has to tell while the job runs, as much of
// it as was asked for.
func notices(inv dialect.Invocation) func(launcher.Notice) string {
	return func(n launcher.Notice) string {
		if inv.Quiet || n.Detail && inv.Verbose == 0 || n.Note && inv.IsSilent() {
			return ""
		}
		if n.Plain {
			return n.Text
		}
		return "gorun: " + n.Text
	}
}

// signals are those that the job is told of: those that mean something to
// every job, and those that the user named. SIGHUP stays ignored where it was,
// which is what nohup is for.
func signals(named []string) []os.Signal {
	list := []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGQUIT, syscall.SIGWINCH,
		syscall.SIGTSTP, syscall.SIGCONT,
	}
	for _, name := range append(slices.Clone(named), "SIGHUP") {
		if s := unix.SignalNum(name); s != syscall.SIGHUP || !signal.Ignored(s) {
			list = append(list, s)
		}
	}
	return list
}

// wantColour follows https://no-color.org and terminals that cannot.
func wantColour() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }
