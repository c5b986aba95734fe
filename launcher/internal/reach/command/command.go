// Package command reaches hosts by a program that the user names: OpenSSH's ssh with
// options of its own, kubectl exec, docker exec, ip netns exec.
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

	"gorun/launcher/internal/reach/remote"
)

// lineWord is the word in whose place the command line comes.
const lineWord = "{command}"

// Argv are the program with its arguments that runs a command line on a host:
//
//   - {host}, {user} and {port} are filled in wherever they stand; a user or a port
//     that is wanted and was not named is an error;
//   - without {host}, [-l USER] [-p PORT] HOST follow, as for ssh;
//   - then the line: where {command} stands; or as one argument, if there was no {host}
//     or a program called ssh is among the words before it, since ssh has a shell
//     read it; or else as sh -c LINE, since other programs execute their arguments.
func Argv(words []string, target remote.Target, line string) ([]string, error) {
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("no program stands for ssh")
	}
	if strings.HasPrefix(target.Name, "-") || target.Name == "" {
		return nil, fmt.Errorf("%q is no name of a host", target.Name)
	}
	filled, hostAt, lineAt := make([]string, 0, len(words)+6), -1, -1
	for i, word := range words {
		if strings.Contains(word, "{host}") && hostAt < 0 {
			hostAt = i
		}
		if strings.Contains(word, lineWord) {
			lineAt = i
		}
		one, err := fill(word, target)
		if err != nil {
			return nil, err
		}
		filled = append(filled, strings.ReplaceAll(one, lineWord, line))
	}
	if hostAt < 0 {
		filled = insertHost(filled, lineAt, target)
	}
	switch {
	case lineAt >= 0:
		return filled, nil
	case hostAt < 0 || slices.ContainsFunc(words[:hostAt], isSSH):
		return append(filled, line), nil
	}
	return append(filled, "sh", "-c", line), nil
}

// isSSH tells whether a word is a program that gives its arguments to a shell on the
// other side, joined by blanks.
func isSSH(word string) bool { return filepath.Base(word) == "ssh" }

// fill puts the target in the place of {host}, {user} and {port}.
func fill(word string, target remote.Target) (string, error) {
	if strings.Contains(word, "{user}") && target.User == "" {
		return "", fmt.Errorf("%s: no user is named for %s: write USER@%s", word, target.Name, target.Name)
	}
	if strings.Contains(word, "{port}") && target.Port == 0 {
		return "", fmt.Errorf("%s: no port is named for %s", word, target.Name)
	}
	return strings.NewReplacer("{host}", target.Name, "{user}", target.User, "{port}",
		strconv.Itoa(target.Port)).Replace(word), nil
}

// insertHost adds user, port and host as ssh takes them, in front of the line if that
// has a place.
func insertHost(words []string, at int, target remote.Target) []string {
	var added []string
	if target.User != "" {
		added = append(added, "-l", target.User)
	}
	if target.Port != 0 {
		added = append(added, "-p", strconv.Itoa(target.Port))
	}
	if at < 0 {
		at = len(words)
	}
	return slices.Insert(words, at, append(added, target.Name)...)
}

// Dial is a Host that starts one process of the program for each command. It runs
// nothing yet: whether the host can be reached shows with the first command. environ
// is the environment of the program. connect is how long OpenSSH's ssh, of which gorun
// knows how to ask for that, waits for a host that does not accept a connection, unless
// the user says otherwise; 0 leaves it to ssh.
func Dial(words []string, target remote.Target, environ []string, connect time.Duration) (remote.Host, error) {
	if _, err := Argv(words, target, ""); err != nil {
		return nil, remote.Failed(target.Name, remote.StepConfig, time.Now(), "--ssh: "+err.Error(), err)
	}
	h := &host{words: words, target: target, environ: environ, running: map[*remote.Program]bool{}}
	h.openSSH = sync.OnceValue(func() openSSH { return h.askOpenSSH(connect) })
	return h, nil
}

type host struct {
	words   []string
	target  remote.Target
	environ []string
	openSSH func() openSSH

	mu      sync.Mutex
	running map[*remote.Program]bool
	closed  bool
}

// Name is the host as the user called it.
func (h *host) Name() string { return h.target.Name }

// Close ends the processes that are still there.
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
		text := err.Error()
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			text = "--ssh: " + h.words[0] + " is not installed here"
		}
		return nil, remote.Failed(h.target.Name, remote.StepConnect, began, text, err)
	}
	return p, nil
}

func (h *host) start(ctx context.Context, line string) (*remote.Program, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	words, err := Argv(h.words, h.target, line)
	if err != nil {
		return nil, err
	}
	words = slices.Insert(words, 1, h.openSSH().options...)
	h.mu.Lock() // Close must find every process
	defer h.mu.Unlock()
	if h.closed {
		return nil, errors.New("the connection is closed")
	}
	p, err := remote.Start(words, h.environ, keptErrors)
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

// keptErrors is how long after its end something else may hold the program's standard
// error: a connection that ControlMaster keeps does, for as long as it is kept.
const keptErrors = 200 * time.Millisecond
