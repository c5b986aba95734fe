package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/hold"
	"gorun/cmd/gorun/internal/show"
	"gorun/env"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher"
	"gorun/launcher/job"
)

// runJob runs the job, or prints its plan, and returns the exit code.
func runJob(inv dialect.Invocation) int {
	began := time.Now()
	var plan *job.Plan
	recorder := newRecorder(&inv, began)
	options := hostOptions(inv)
	options.Stdin, options.Stdout, options.Stderr = os.Stdin, os.Stdout, os.Stderr
	options.Colour = [2]bool{show.Colour(os.Stdout), show.Colour(os.Stderr)}
	options.Quarantine, options.ASCII, options.Metrics = quarantineFile(), !show.UTF8(os.Getenv), inv.Metrics
	options.Planned = func(p *job.Plan) {
		if plan = p; p.Attempt == 0 {
			displayPlan(inv, p)
		}
		if !inv.DryRun {
			recorder.planned(p)
		}
	}
	if inv.DryRun {
		return dryRun(inv, options)
	}
	if !inv.Unlisted {
		options.Registry = registryPlaces()
	}
	useThreadsFor(&inv.Spec)
	inv.Spec.SuspectAfter = suspectAfter(os.Getenv("CI"))
	errorFile := os.Getenv(env.VarTorchelasticErrorFile)
	if j := inv.Spec.Join; j != nil && j.Task != nil && j.Task.Rank > 0 { // rank 0's gorun writes those files
		inv.Report, inv.Events, errorFile = "", "", ""
	}
	if err := createFiles(inv); err != nil {
		return reportStartFailure(err).ExitCode
	}
	if err := recorder.sendEvents(inv.Events); err != nil {
		return reportStartFailure(err).ExitCode
	}
	recorder.listen(&options)
	if inv.Events == "-" {
		options.Stdout, options.Colour[0] = os.Stderr, options.Colour[1]
	}
	options.Frames = inv.Verbose > 1
	if inv.Display.Processes != "" {
		options.Started = func(p *job.Plan, pids []int) {
			notifyError("--output-proctable", writeTo(inv.Display.Processes, processTable(p, pids)))
		}
	}
	if inv.StopWith > 0 {
		go stopWith(inv.StopWith)
	}
	jobSignals := signals(append(slices.Clip(inv.Spec.SignalsToHandle), inv.Spec.PreemptSignal))
	// These may come before ranks run: a notice, and one for which Go's runtime would print its stacks.
	hold.Signals([]os.Signal{unix.SignalNum(inv.Spec.PreemptSignal), syscall.SIGQUIT})
	options.WholeProcess, options.HoldSignals = true, func() { hold.Signals(jobSignals) }
	options.Signals = func(ch chan<- os.Signal) { signal.Notify(ch, jobSignals...); hold.Release(ch) }
	result, err := launcher.Run(context.Background(), inv.Spec, options)
	if err != nil {
		result = reportStartFailure(suggestCommand(err, &inv))
	} else {
		if plan == nil { // node 0's gorun writes the report, often into the same file
			inv.Report = ""
		}
		if inv.Display.ExitCodes && plan != nil {
			_ = writeTo("-", exitCodes(plan, result.Ranks))
		}
		_, _ = os.Stderr.WriteString(failureReport(os.Stderr, result))
	}
	// A gorun that is a rank may end before the outer one has made the file's directory.
	err = replaceFile(errorFile, launcher.ErrorFile(result))
	if !errors.Is(err, fs.ErrNotExist) || os.Getenv(env.VarRank) == "" {
		notifyError(env.VarTorchelasticErrorFile, err)
	}
	report := newReport(inv.Spec, plan, result, began)
	recorder.end(report)
	return writeReport(inv.Report, report)
}

// suspectAfter returns after how much silence gorun says that a job may hang: sooner where minutes of CI pass.
func suspectAfter(ci string) time.Duration {
	if ci == "true" {
		return 3 * time.Minute
	}
	return 10 * time.Minute
}

// stopWith ends the job as SIGTERM does once the process has ended, if the kernel can tell (since Linux 5.3).
func stopWith(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	watched := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for err == nil && watched[0].Revents == 0 || err == unix.EINTR {
		_, err = unix.Poll(watched, -1)
	}
	if err == nil || err == unix.ESRCH {
		_ = unix.Kill(os.Getpid(), unix.SIGTERM)
	}
}

// failureReport explains how a job failed, on a terminal below the output of its ranks.
func failureReport(stderr *os.File, result *launcher.Result) string {
	m := show.MessagesFor(stderr)
	report := launcher.ExplainBelow(result)
	if result.Cause == job.CauseDone || result.Cause == job.CauseSignal || result.Requeued != "" { // nothing failed
		return m.Wrap(report)
	}
	return m.Failure(report)
}

// createFiles creates the files that the job will write, so that a mistake is known before it has run for days. It
// empties the report: should this process be killed, an earlier job's report must not be taken for this one's.
func createFiles(inv dialect.Invocation) error {
	for _, file := range []struct{ option, path string }{
		{"--report", inv.Report}, {"--report-uri", inv.Display.URI}, {"--output-proctable", inv.Display.Processes},
	} {
		if err := createFile(file.path); err != nil {
			return optionError(file.option, err)
		}
	}
	return optionError("--report-pid", writeTo(inv.Display.PID, fmt.Sprintln(os.Getpid())))
}

func dryRun(inv dialect.Invocation, options launcher.Options) int {
	p, err := launcher.Plan(context.Background(), inv.Spec, options)
	if err != nil {
		code := reportStartFailure(suggestCommand(err, &inv)).ExitCode
		if e, ok := errors.AsType[*launcher.Error](flatten(err)[0]); ok && e.Unreached() {
			notify(os.Stderr, "hint: add `--offline` to plan without contacting hosts")
		}
		return code
	}
	if err := writePlan(os.Stdout, p, &inv); err != nil {
		notify(os.Stderr, printable.Error(err))
		return job.ExitLauncher
	}
	return 0
}

// suggestCommand completes the hint of a program that cannot start, and adds one if its name resembles a command of
// gorun or another command line was meant.
func suggestCommand(err error, inv *dialect.Invocation) error {
	for _, err := range flatten(err) {
		e, ok := errors.AsType[*launcher.Error](err)
		if !ok || e.Code != job.ExitNotExec && e.Code != job.ExitNotFound {
			continue
		}
		for i, app := range inv.Spec.Apps {
			line := inv.Command(i, thisProgram)
			switch isOf := len(inv.Spec.Apps) == 1 || strings.HasPrefix(e.Text, app.Program+": "); {
			case !isOf || line == "":
				continue
			case e.Hint != "":
				e.Hint = completeHint(e.Hint, line, app.Args)
			case e.Code == job.ExitNotFound && app.Start == job.StartAuto && len(inv.Spec.Apps) == 1:
				if command := inv.Meant(commandNames()); command != "" {
					e.Hint = "run `" + command + "`"
				}
			}
			break
		}
	}
	return err
}

// thisProgram is where a program with its arguments would be in a command line.
const thisProgram = "@program@"

// completeHint gives a hint, which is about a program alone, the rest of the command line and the program's arguments.
func completeHint(hint, line string, args []string) string {
	before, after, found := strings.Cut(hint, "run `gorun ")
	program, after, _ := strings.Cut(after, "`")
	if near, is := strings.CutPrefix(hint, "did you mean "); is && near[0] != '`' {
		before, program, after, found = "", strings.TrimSuffix(near, "?"), "", true
	}
	if !found {
		return hint
	}
	if len(args) > 0 {
		program += " " + shellwords.Join(args)
	}
	return before + "run `" + strings.Replace(line, thisProgram, program, 1) + "`" + after
}

// reportStartFailure prints all reasons why a job could not start, and returns them as a result.
func reportStartFailure(err error) *launcher.Result {
	result := &launcher.Result{Cause: job.CauseStart, ExitCode: job.ExitLauncher, Text: printable.Error(err)}
	list := flatten(err)
	for _, line := range errorLines(list) {
		notify(os.Stderr, line)
	}
	if e, ok := errors.AsType[*launcher.Error](list[0]); ok {
		result.ExitCode, result.Text, result.Hint = e.Code, e.Text, e.Hint
	}
	result.Classify()
	return result
}

// errorLines returns the lines of errors with their hints. A hint that several successive errors have comes once.
func errorLines(list []error) (lines []string) {
	hint := func(i int) string {
		if e, ok := errors.AsType[*launcher.Error](list[i]); ok {
			return e.Hint
		}
		return ""
	}
	for i, err := range list {
		lines = append(lines, printable.Error(err))
		if h := hint(i); h != "" && (i+1 == len(list) || hint(i+1) != h) {
			for line := range strings.Lines(h) {
				lines = append(lines, "hint: "+strings.TrimSpace(line))
			}
		}
	}
	return lines
}

func createFile(path string) error {
	if path == "" || path == "-" || path == "+" { // see writeTo
		return nil
	}
	// #nosec G302 -- the umask is the user's choice
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return printable.Unwritten(path, err)
	}
	return f.Close()
}

// replaceFile writes a file atomically. It writes in place what is no regular file, or cannot be replaced, such as a
// file that a container engine mounts.
func replaceFile(path string, text []byte) error {
	if path == "" || text == nil {
		return nil
	}
	write := func(name string, flag int) error {
		// #nosec G302 G304 -- the umask is the user's choice, and so is the file
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|flag, 0o666)
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
		if !errors.Is(err, fs.ErrExist) { // otherwise it is another process's
			_ = os.Remove(part)
		}
	}
	if err := write(path, os.O_TRUNC|syscall.O_NONBLOCK); err != nil {
		return printable.Unwritten(path, err)
	}
	return nil
}

// writeTo writes to standard output ("-"), standard error ("+"), a file, or nowhere ("").
func writeTo(path, text string) (err error) {
	switch path {
	case "":
	case "-":
		_, err = os.Stdout.WriteString(text)
	case "+":
		_, err = os.Stderr.WriteString(text)
	default:
		// #nosec G306 -- the umask is the user's choice
		if err = os.WriteFile(path, []byte(text), 0o666); err != nil {
			err = printable.Unwritten(path, err)
		}
	}
	return err
}

func notifyError(option string, err error) {
	if err != nil {
		notify(os.Stderr, option+": "+printable.Error(err))
	}
}

// formatNotice returns how to print the launcher's notices, "" for those that the user did not ask for.
func formatNotice(inv dialect.Invocation) func(launcher.Notice) string {
	return func(n launcher.Notice) string {
		if inv.Quiet || n.Detail && inv.Verbose == 0 || n.Note && inv.IsSilent() {
			return ""
		}
		if n.Plain {
			return n.Text
		}
		return show.MessagesFor(os.Stderr).Wrap("gorun: " + n.Text)
	}
}

// signals returns those that the job handles, with those that the user named. SIGHUP stays ignored if it was, as nohup
// wants it.
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
