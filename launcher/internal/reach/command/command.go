// Package command reaches hosts by a program that the user names: OpenSSH's ssh with options, kubectl exec, docker
// exec,
// ip netns exec.
package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/reach/remote"
)

// linePlaceholder is replaced by the command line.
const linePlaceholder = "{command}"

// Argv returns the arguments that run a command line on a host, program first:
//
//   - {host}, {user} and {port} are replaced; a user or port that target lacks is an error;
//   - without {host}, [-l USER] [-p PORT] HOST are added, as for ssh: user and port right after a program called ssh,
//     whose first options count;
//   - then the line: in place of {command}; or as one argument if there was no {host} or a program called ssh comes
//     before it, since ssh runs a shell; or as sh -c LINE, since other programs execute their arguments.
func Argv(template []string, target remote.Target, line string) ([]string, error) {
	if len(template) == 0 || template[0] == "" {
		return nil, errors.New("no program is given")
	}
	if strings.HasPrefix(target.Name, "-") || target.Name == "" {
		return nil, fmt.Errorf("%q is not a host name", target.Name)
	}
	argv, hostAt, lineAt := make([]string, 0, len(template)+6), -1, -1
	for i, word := range template {
		if strings.Contains(word, "{host}") && hostAt < 0 {
			hostAt = i
		}
		if strings.Contains(word, linePlaceholder) {
			lineAt = i
		}
		filled, err := fill(word, target)
		if err != nil {
			return nil, err
		}
		argv = append(argv, strings.ReplaceAll(filled, linePlaceholder, line))
	}
	if hostAt < 0 {
		argv = insertHost(argv, lineAt, target)
	}
	switch {
	case lineAt >= 0:
		return argv, nil
	case hostAt < 0 || slices.ContainsFunc(template[:hostAt], isSSH):
		return append(argv, line), nil
	}
	return append(argv, "sh", "-c", line), nil
}

// isSSH reports whether a word is a program that joins its arguments for a remote shell.
func isSSH(word string) bool { return filepath.Base(word) == "ssh" }

// fill replaces {host}, {user} and {port}.
func fill(word string, target remote.Target) (string, error) {
	if strings.Contains(word, "{user}") && target.User == "" {
		return "", fmt.Errorf("%s: no user for %s: write USER@%s", word, target.Name, target.Name)
	}
	if strings.Contains(word, "{port}") && target.Port == 0 {
		return "", fmt.Errorf("%s: no port for %s", word, target.Name)
	}
	return strings.NewReplacer("{host}", target.Name, "{user}", target.User, "{port}",
		strconv.Itoa(target.Port)).Replace(word), nil
}

// insertHost adds user, port and host as ssh takes them, the host before the word at lineAt; -1 is the end.
func insertHost(argv []string, lineAt int, target remote.Target) []string {
	var added []string
	if target.User != "" {
		added = append(added, "-l", target.User)
	}
	if target.Port != 0 {
		added = append(added, "-p", strconv.Itoa(target.Port))
	}
	if lineAt < 0 {
		lineAt = len(argv)
	}
	at := lineAt
	for i, word := range argv[:lineAt] {
		if isSSH(word) {
			at = i + 1
		}
	}
	return slices.Insert(slices.Insert(argv, lineAt, target.Name), at, added...)
}

// Dial returns a Host that starts one process of the program, with the environment environ, for each command. It starts
// nothing yet: whether the host is reachable shows with the first command. connect limits how long OpenSSH's ssh waits
// for the connection, unless the user's options do; 0 adds no limit.
func Dial(template []string, target remote.Target, environ []string, connect time.Duration) (remote.Host, error) {
	if _, err := Argv(template, target, ""); err != nil {
		return nil, remote.Failed(target.Name, remote.StepConfig, time.Now(), "--ssh: "+err.Error(), err)
	}
	h := &host{argv: template, target: target, environ: environ, running: map[*remote.Program]bool{}}
	h.openSSH = sync.OnceValue(func() openSSH { return h.queryOpenSSH(connect) })
	return h, nil
}

type host struct {
	argv    []string // with placeholders
	target  remote.Target
	environ []string
	openSSH func() openSSH

	mu      sync.Mutex
	running map[*remote.Program]bool
	closed  bool
}

// Name returns the host's name as the user gave it.
func (h *host) Name() string { return h.target.Name }

// Close kills the processes that still run.
func (h *host) Close() error {
	h.mu.Lock()
	h.closed = true
	all := slices.Collect(maps.Keys(h.running))
	h.mu.Unlock()
	for _, p := range all {
		_ = p.Close()
	}
	return nil
}

// Start starts the program.
func (h *host) Start(ctx context.Context, line string) (remote.Process, error) {
	remote.ReportStep(ctx, remote.StepConnect)
	began := time.Now()
	p, err := h.start(ctx, line)
	if err != nil {
		text := printable.Error(err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			text = "--ssh: " + h.argv[0] + " is not installed here"
		}
		return nil, remote.Failed(h.target.Name, remote.StepConnect, began, text, err)
	}
	return p, nil
}

func (h *host) start(ctx context.Context, line string) (*remote.Program, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	argv, err := Argv(h.argv, h.target, line)
	if err != nil {
		return nil, err
	}
	argv = slices.Insert(argv, 1, h.openSSH().options...)
	h.mu.Lock() // so that Close finds every process
	defer h.mu.Unlock()
	if h.closed {
		return nil, errors.New("the connection is closed")
	}
	p, err := remote.Start(argv, h.environ, stderrDelay)
	if err != nil {
		return nil, err
	}
	h.running[p] = true
	go func() {
		<-p.Ended
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.running, p)
	}()
	return p, nil
}

// stderrDelay limits how long another process may hold the program's standard error after its end: a connection that
// ControlMaster keeps holds it as long as it lives.
const stderrDelay = 200 * time.Millisecond
