package launcher

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gorun/internal/printable"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/program"
	"gorun/launcher/internal/spec"
	"gorun/launcher/job"
)

// buildPrograms builds Go programs for other hosts here, where sources, modules and compilers are,
// and has them sent along.
func (s *session) buildPrograms(ctx context.Context, list []hosts.Host) error {
	if !slices.ContainsFunc(list, func(h hosts.Host) bool { return !h.Here }) {
		return nil
	}
	apps := slices.Clone(s.spec.Apps) // the spec belongs to the caller
	for i := range apps {
		if err := s.buildApp(ctx, &apps[i]); err != nil {
			return err
		}
	}
	s.spec.Apps = apps
	return nil
}

func (s *session) buildApp(ctx context.Context, app *job.App) error {
	command := s.commandOf(app)
	command.Dir, command.Path = "", ""
	r, err := s.resolve(command)
	if err != nil || r.Build == nil { // the hosts report errors
		return nil
	}
	if s.buildDir == "" {
		if s.buildDir, err = s.makeBuildDir(); err != nil {
			return failure("build " + app.Program + ": " + err.Error())
		}
	}
	s.settings.detail("building " + app.Program + " for all hosts")
	file := filepath.Join(s.buildDir, r.Build.Name)
	environ := append(slices.Clone(s.spec.Environ), "GOTMPDIR="+s.buildDir)
	if err := r.Build.Run(ctx, file, environ, noticeWriter{s}); err != nil {
		return buildError(err)
	}
	app.Program, app.Args, app.Start = file, r.Argv[1:], job.StartExec
	s.spec.Reach.Programs = append(slices.Clip(s.spec.Reach.Programs), file)
	return nil
}

// resolve finds a program on this host.
func (c *call) resolve(command spec.Command) (program.Resolved, error) {
	return program.Resolve(command, func(name string) string { v, _ := lookup(c.spec.Environ, name); return v })
}

// Agents that a resource manager starts get no files sent, so their build directory must be shared.
func (s *session) makeBuildDir() (string, error) {
	dir := s.tempDir()
	if s.spec.StartedByEngine() {
		dir = s.sharedDir()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
	}
	return os.MkdirTemp(dir, "gorun-build-")
}

// noticeWriter forwards a compiler's messages to the user.
type noticeWriter struct{ s *session }

func (w noticeWriter) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		w.s.settings.notify(printable.Text(strings.TrimRight(line, "\n")))
	}
	return len(p), nil
}

func buildError(err error) error {
	if e, ok := errors.AsType[*program.Error](err); ok {
		return &Error{Code: e.Code, Text: printable.Text(e.Error()), Hint: printable.Text(e.Hint)}
	}
	return failure(printable.Text(err.Error()))
}
