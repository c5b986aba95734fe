package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"

	"gorun/internal/printable"
)

// patience is how long a resource manager may take to answer.
const patience = 30 * time.Second

// outputOf runs a command and returns what it prints, or what it said of its failure.
func outputOf(argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second // what it has started may hold its output
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		said := strings.TrimSpace(string(exit.Stderr))
		return nil, errors.New(printable.Text(printable.Short(strings.TrimPrefix(said+" ("+exit.String()+")", " "))))
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer within %s", patience)
	}
	return out, err
}

// isUnknown reports whether there is no host of a name, as far as the resolver says. A
// resolver that does not answer says nothing.
func isUnknown(name string) bool {
	const limit = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	unknown, ok := errors.AsType[*net.DNSError](err)
	return ok && unknown.IsNotFound
}
