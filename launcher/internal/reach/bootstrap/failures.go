package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gorun/internal/printable"
	"gorun/launcher/internal/reach/remote"
)

// fail returns an error of this host.
func (s *session) fail(step remote.Step, text string, cause error) *remote.Error {
	failure := remote.Failed(s.host.Name(), step, s.began, printable.Short(text), cause)
	if named, ok := s.host.(interface{ Target() string }); ok {
		failure.Target = printable.Text(named.Target())
	}
	return failure
}

// timeoutError is the error when ctx ends before the last answer.
func (s *session) timeoutError(ctx context.Context) error {
	return s.fail(s.step(), "not ready in time"+s.lastOutput(": "), context.Cause(ctx))
}

// startError is the error of a host that runs no command. The connection names its own step if it knows one.
func (s *session) startError(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*remote.Error](err); ok {
		return err
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return s.fail(remote.StepStart, err.Error(), err)
}

// readError is the error of a command whose output ended, or became invalid, before the program ran.
func (s *session) readError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return s.timeoutError(ctx)
	}
	if !errors.Is(err, io.EOF) {
		return s.fail(s.step(), err.Error()+s.lastOutput(": "), err)
	}
	end := s.process.Wait()
	if len(s.places) > 0 && end == nil {
		slices.Sort(s.places)
		return s.fail(remote.StepCopy, "no place for a copy of gorun: "+strings.Join(slices.Compact(s.places), "; "),
			nil).WithHint("free space in one of these directories, or " + installed)
	}
	how := "with exit code 0"
	if _, exited := errors.AsType[*remote.ExitError](end); exited {
		how = "with " + end.Error()
	} else if end != nil {
		return s.fail(s.step(), end.Error()+s.lastOutput(": "), end)
	} else if s.isEcho(string(s.answers.chatter)) {
		return s.fail(s.step(), "the command line for the host was printed, and not run there", nil).
			WithHint("let --ssh name a program that runs it there, as `ssh` does")
	}
	return s.fail(s.step(), "the shell ended "+how+" before gorun started"+s.lastOutput(": "), end)
}

// lastOutput returns the command's last lines, from standard error or else from before the mark, after prefix; "" if
// none exists.
func (s *session) lastOutput(prefix string) string {
	for _, text := range []string{s.process.Stderr(), string(s.answers.chatter)} {
		lines := slices.DeleteFunc(strings.Split(text, "\n"), s.isEcho)
		if last := remote.LastLines(strings.Join(lines, "\n")); last != "" {
			return prefix + last
		}
	}
	return ""
}

// isEcho reports whether a text ends with a piece of the command line, which is long and tells the user nothing.
func (s *session) isEcho(text string) bool {
	const piece = 64
	text = strings.TrimRight(text, "'\r\n ")
	return len(text) >= piece && strings.Contains(s.line, text[len(text)-piece:])
}

// refused is the error of an answer that ends the start.
func (s *start) refused(word, text string) error {
	switch word {
	case "missing":
		return s.fail(remote.StepStart, fmt.Sprintf("--agent %q: not found", s.config.Agent), nil)
	case "broken":
		return s.fail(remote.StepCopy, "cannot copy gorun: "+text, nil).WithHint(installed)
	case "arch":
		return s.archError(text)
	case "bad":
		return s.checkError(text)
	}
	return s.fail(remote.StepStart, fmt.Sprintf("unexpected answer %q", word), nil)
}

// archError is the error of a host without a build. The name of its kernel comes first where it may not be Linux.
func (s *start) archError(name string) error {
	system, machine, both := strings.Cut(strings.TrimSpace(name), " ")
	if !both {
		system, machine = "Linux", system
	}
	if system != "Linux" {
		return s.fail(remote.StepStart, "the host runs "+system+", and gorun needs Linux", nil)
	}
	for arch, kernel := range kernelArch {
		if kernel == machine {
			return s.fail(remote.StepCopy,
				fmt.Sprintf("the host has %s processors (%s), and this gorun has no agent for them", arch, machine), nil).
				WithHint(withAgents)
		}
	}
	return s.fail(remote.StepStart, fmt.Sprintf("unsupported processor %q: gorun runs on amd64 and arm64", machine), nil)
}

// Ways out: installed for a host that takes no copy, withAgents for a gorun that can only copy itself.
const (
	installed  = "add `--agent PATH` for a gorun that is installed there"
	withAgents = "build gorun with `make build`, which gives it agents for amd64 and arm64, or " + installed
)

// checkError is the error of a complete copy that does not run there. text is the exit code, the directory and the
// output of the check.
func (s *start) checkError(text string) error {
	code, output, _ := strings.Cut(strings.TrimSuffix(text, ":"), " ")
	why := "the copy of gorun fails: exit code " + code + ": " + output
	for _, b := range s.config.Program.Builds {
		if b.Loader != "" {
			return s.fail(remote.StepStart,
				fmt.Sprintf("%s (%s is not static: it needs %s and the C library it was built with)", why, b.Path, b.Loader),
				nil).WithHint(withAgents)
		}
	}
	return s.fail(remote.StepStart, why, nil).WithHint(installed)
}
