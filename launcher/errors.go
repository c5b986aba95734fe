package launcher

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"

	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// Error is a job that could not begin: no rank has run.
type Error struct {
	// Code is the exit code that says so: 2, 125, 126 or 127.
	Code int
	Text string
	Hint string // something to try; "" for none

	step   string        // of reaching a host; "" elsewhere
	target string        // what Text calls that host
	after  time.Duration // what Text ends with; 0: it does not say
}

func (e *Error) Error() string { return e.Text }

// failure is an error that no option of the user's has made.
func failure(text string) *Error { return &Error{Code: job.ExitLauncher, Text: text} }

// usageErrors makes each error of a list one that says what exit code it is.
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

// flatten lists what an error consists of.
func flatten(err error) (list []*Error) {
	var several *multierror.Error
	var one *Error
	switch {
	case err == nil:
	case errors.As(err, &several):
		for _, e := range several.Errors {
			list = append(list, flatten(e)...)
		}
	case errors.As(err, &one):
		list = append(list, one)
	default:
		list = append(list, failure(err.Error()))
	}
	return list
}

// worthTelling is from when on a time is said.
const minReportedDelay = time.Second

// afterText is how long it took until an error; the same one of several hosts is told once, so it is in seconds.
func afterText(d time.Duration) string {
	if d < minReportedDelay {
		return ""
	}
	return fmt.Sprintf(" (after %s)", d.Round(time.Second))
}

// general is the error without what is of one host alone.
func (e *Error) withoutHost() Error {
	g := *e
	g.Text, g.after = strings.TrimSuffix(g.Text, afterText(e.after)), 0
	if g.target != "" {
		g.Text, g.Hint = strings.ReplaceAll(g.Text, g.target, "the host"), ""
		g.target = ""
	}
	return g
}

// trouble is an error and the nodes that have it.
type nodeFailure struct {
	Error
	general Error
	names   []string
}

// join makes one list of what failed on the nodes.
func (s *session) joinErrors(errs []error) error {
	var troubles []*nodeFailure
	for i, err := range errs {
		for _, e := range flatten(err) {
			troubles = s.addFailure(troubles, s.nodes[i], e)
		}
	}
	var all *multierror.Error
	for _, t := range troubles {
		e := t.Error
		if len(t.names) > 1 {
			e.Text = t.general.Text + afterText(t.after)
		}
		if e.Code == job.ExitNotFound && e.Hint == "" {
			e.Hint = s.copyHint(e.Text)
		}
		if len(t.names) < len(s.nodes) || t.target != "" || e.Code != job.ExitUsage && !s.includesThisHost() {
			e.Text = hosts.Fold(t.names) + ": " + e.Text
		}
		all = multierror.Append(all, &e)
	}
	return all.ErrorOrNil()
}

func (s *session) addFailure(troubles []*nodeFailure, n *node, e *Error) []*nodeFailure {
	general := e.withoutHost()
	for _, t := range troubles {
		if t.general == general {
			t.names, t.after = append(t.names, n.name), max(t.after, e.after)
			return troubles
		}
	}
	return append(troubles, &nodeFailure{*e, general, []string{n.name}})
}

// ranksHere reports whether this host is among the job's: what holds for all of them
// holds for the one where the user reads it.
func (s *session) includesThisHost() bool {
	return slices.ContainsFunc(s.nodes, func(n *node) bool { return n.host.Here })
}

// copyHint is the way out where a program is missing on other hosts and is here.
func (s *session) copyHint(text string) string {
	for _, app := range s.spec.Apps {
		if !strings.HasPrefix(text, app.Program+": ") || !strings.Contains(app.Program, "/") {
			continue
		}
		if info, err := os.Stat(app.Program); err == nil && info.Mode().IsRegular() {
			return "--copy " + app.Program + " sends this host's to the others"
		}
	}
	return ""
}
