package launcher

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/go-multierror"

	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// Error is the reason why a job could not start: no rank has run.
type Error struct {
	// exit code for the program: 2, 125, 126 or 127
	Code int
	Text string
	Hint string // what to try; "" for nothing

	step   string        // of reaching the host; "" for other errors
	target string        // the host's name in Text
	after  time.Duration // included at the end of Text unless it is short

	headLost bool // node 0 ended or does not answer
}

func (e *Error) Error() string { return e.Text }

// Unreached reports whether the reason is that a host could not be reached.
func (e *Error) Unreached() bool { return e.step != "" }

// failure is an error that the user's options did not cause.
func failure(text string) *Error { return &Error{Code: job.ExitLauncher, Text: text} }

// usageErrors gives each error of a list the exit code for wrong usage.
func usageErrors(err error) error {
	list := flatten(err)
	if len(list) == 1 {
		return &Error{Code: job.ExitUsage, Text: list[0].Text}
	}
	var all *multierror.Error
	for _, e := range list {
		all = multierror.Append(all, &Error{Code: job.ExitUsage, Text: e.Text})
	}
	return all
}

// flatten returns all errors in a tree of lists, of go-multierror or of [errors.Join].
func flatten(err error) (list []*Error) {
	var several *multierror.Error
	var one *Error
	joined, isJoined := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
	case isJoined:
		for _, e := range joined.Unwrap() {
			list = append(list, flatten(e)...)
		}
	case errors.As(err, &several):
		for _, e := range several.Errors {
			list = append(list, flatten(e)...)
		}
	case errors.As(err, &one):
		list = append(list, one)
	default:
		list = append(list, failure(printable.Error(err)))
	}
	return list
}

// Shorter times are not worth a report.
const minReportedDelay = time.Second

// Whole seconds: the errors of several hosts are merged, with the longest time.
func afterText(d time.Duration) string {
	if d < minReportedDelay {
		return ""
	}
	return fmt.Sprintf(" (after %s)", d.Round(time.Second))
}

// withoutHost returns the error without what differs between hosts, to merge equal errors.
func (e *Error) withoutHost() Error {
	g := *e
	g.Text, g.after = strings.TrimSuffix(g.Text, afterText(e.after)), 0
	if g.target != "" {
		isWord := func(text string, at int) bool { // target "a" is not the one in "cannot"
			return at >= 0 && at < len(text) && unicode.IsLetter(rune(text[at]))
		}
		before, after, found := strings.Cut(g.Text, g.target)
		if found && !isWord(before, len(before)-1) && !isWord(after, 0) {
			g.Text = before + "the host" + after
		}
		g.Hint, g.target = "", ""
	}
	return g
}

// nodeFailure is an error and the nodes that have it.
type nodeFailure struct {
	Error
	general Error
	names   []string
}

// merged returns the error of all the nodes.
func (t *nodeFailure) merged() Error {
	e := t.Error
	if len(t.names) > 1 {
		e.Text = t.general.Text + afterText(t.after)
	}
	return e
}

// joinErrors merges the errors of nodes, by their index.
func (s *session) joinErrors(errs []error) error {
	var troubles []*nodeFailure
	for i, err := range errs {
		for _, e := range flatten(err) {
			troubles = addFailure(troubles, s.nodes[i], e)
		}
	}
	var all *multierror.Error
	for _, t := range troubles {
		e := t.merged()
		if e.Code == job.ExitNotFound && e.Hint == "" {
			e.Hint = s.copyHint(e.Text)
		}
		if start := s.spec.Reach.Engine; e.Unreached() && start != nil && start.Missing != "" {
			e.Text += " over SSH, as " + start.Missing + " is not in PATH"
		}
		if len(t.names) < len(s.nodes) || t.target != "" || e.Code != job.ExitUsage && !s.includesThisHost() {
			e.Text = hosts.NodeList(t.names) + ": " + e.Text
		}
		all = multierror.Append(all, &e)
	}
	return all.ErrorOrNil()
}

func addFailure(troubles []*nodeFailure, n *node, e *Error) []*nodeFailure {
	general := e.withoutHost()
	for _, t := range troubles {
		if t.general == general {
			t.names, t.after = append(t.names, n.name), max(t.after, e.after)
			return troubles
		}
	}
	return append(troubles, &nodeFailure{*e, general, []string{n.name}})
}

// includesThisHost reports whether the user reads an error that all nodes have on one of them.
func (s *session) includesThisHost() bool {
	return slices.ContainsFunc(s.nodes, func(n *node) bool { return n.host.Here })
}

// copyHint is the hint for a program that is here but not on other hosts.
func (s *session) copyHint(text string) string {
	for _, app := range s.spec.Apps {
		if !strings.HasPrefix(text, app.Program+": ") {
			continue
		}
		if info, err := os.Stat(app.Program); err == nil && info.Mode().IsRegular() {
			return "add `--copy " + shellwords.Quote(app.Program) + "` to send this host's file to the others"
		}
	}
	return ""
}

// plural counts things: "1 rank", "2 ranks".
func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
