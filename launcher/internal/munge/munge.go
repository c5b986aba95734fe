// Package munge has MUNGE (https://github.com/dun/munge) vouch for users: the service by
// which Slurm's daemons know who asks, on each host of a site with the same key.
//
// It goes through the commands munge and unmunge, which stand beside the daemon.
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

// Munge is a site's MUNGE as this process reaches it.
type Munge struct {
	seal, open string // paths of the commands
	options    []string
}

// Find looks for the commands. An empty socket is the one that MUNGE was built for.
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

// Seal returns a credential with text in it, which only processes of this user, on hosts
// with the same key, can open, once on each host and within some minutes.
func (m *Munge) Seal(ctx context.Context, text []byte) ([]byte, error) {
	sealed, err := run(ctx, text, m.seal,
		slices.Concat(m.options, []string{"--restrict-uid=" + strconv.Itoa(os.Geteuid())})...)
	return bytes.TrimSpace(sealed), err
}

// Open returns the text of a credential that a process of this user has sealed.
func (m *Munge) Open(ctx context.Context, sealed []byte) ([]byte, error) {
	said, err := run(ctx, sealed, m.open, slices.Concat(m.options, []string{"--numeric", "--keys=UID"})...)
	if err != nil {
		return nil, err
	}
	return textOf(said, os.Geteuid())
}

// textOf takes what unmunge prints apart: lines of what is known of the credential, an
// empty one, and its text as it is.
func textOf(said []byte, user int) ([]byte, error) {
	about, text, found := bytes.Cut(said, []byte("\n\n"))
	if !found {
		return nil, errors.New("unmunge says nothing of who sealed it")
	}
	for _, line := range strings.Split(string(about), "\n") {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) != "UID" {
			continue
		}
		if value = strings.TrimSpace(value); value != strconv.Itoa(user) {
			return nil, fmt.Errorf("user %s has sealed it, and not user %d", printable.Text(printable.Short(value)), user)
		}
		return text, nil
	}
	return nil, errors.New("unmunge says nothing of who sealed it")
}

func run(ctx context.Context, input []byte, name string, args ...string) ([]byte, error) {
	c := child.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(input), &out, &errs
	if err := c.Run(); err != nil {
		if said, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n"); said != "" {
			err = errors.New(printable.Text(printable.Short(said)))
		}
		return nil, err
	}
	return out.Bytes(), nil
}
