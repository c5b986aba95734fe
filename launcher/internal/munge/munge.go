// Package munge seals data for processes of one user with MUNGE (https://github.com/dun/munge), the service that
// Slurm's
// daemons authenticate users with, on all hosts of a site that share its key.
//
// It runs the commands munge and unmunge, which belong to the daemon.
package munge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"gorun/internal/printable"
	"gorun/launcher/internal/process/child"
)

// Munge is a connection to MUNGE.
type Munge struct {
	seal, open string // paths of the commands
	options    []string
}

// Find finds the commands. An empty socket is MUNGE's default.
func Find(socket string) (*Munge, error) {
	m := &Munge{}
	if socket != "" {
		m.options = []string{"--socket=" + socket}
	}
	var err error
	if m.seal, err = find("munge"); err == nil {
		m.open, err = find("unmunge")
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

func find(name string) (path string, err error) {
	if path, err = exec.LookPath(name); errors.Is(err, exec.ErrNotFound) {
		err = fmt.Errorf("%s is not in PATH", name)
	}
	return path, err
}

// Seal returns a credential with text that only processes of this user can open, on hosts with the same key: once on
// each
// host, within some minutes.
func (m *Munge) Seal(ctx context.Context, text []byte) ([]byte, error) {
	sealed, err := run(ctx, text, m.seal,
		slices.Concat(m.options, []string{"--restrict-uid=" + strconv.Itoa(os.Geteuid())})...)
	return bytes.TrimSpace(sealed), err
}

// Open returns the text of a credential if a process of this user has sealed it.
func (m *Munge) Open(ctx context.Context, sealed []byte) ([]byte, error) {
	output, err := run(ctx, sealed, m.open, slices.Concat(m.options, []string{"--numeric", "--keys=UID"})...)
	if err != nil {
		return nil, err
	}
	return parseOutput(output, os.Geteuid())
}

// parseOutput parses the output of unmunge: lines about the credential, an empty line, and the text.
func parseOutput(output []byte, user int) ([]byte, error) {
	header, text, found := bytes.Cut(output, []byte("\n\n"))
	if !found {
		return nil, errNoUser
	}
	for line := range strings.SplitSeq(string(header), "\n") {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) != "UID" {
			continue
		}
		if value = strings.TrimSpace(value); value != strconv.Itoa(user) {
			return nil, fmt.Errorf("user %s has sealed it, and not user %d", printable.Text(printable.Short(value)), user)
		}
		return text, nil
	}
	return nil, errNoUser
}

var errNoUser = errors.New("unmunge says nothing of who sealed it")

func run(ctx context.Context, input []byte, name string, args ...string) ([]byte, error) {
	c := child.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(input), &out, &errs
	if err := c.Run(); err != nil {
		if line, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n"); line != "" {
			err = errors.New(printable.Text(printable.Short(line)))
		}
		return nil, err
	}
	return out.Bytes(), nil
}
