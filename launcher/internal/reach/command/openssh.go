package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorun/launcher/internal/reach/remote"
)

// openSSH holds what is known of a host that OpenSSH's ssh connects to.
type openSSH struct {
	options []string // added after the program's name
	// target is the host's name in messages, "" if unknown.
	target string
}

const queryTimeout = 5 * time.Second // of ssh -G

// queryOpenSSH asks ssh for the options of the host, and adds a connection timeout if they have none. ssh's timeout
// includes the wait for the host's version line: with a jump host or proxy command, whose login may be slow, none is
// added.
func (h *host) queryOpenSSH(connect time.Duration) (found openSSH) {
	argv, err := Argv(h.argv, h.target, "true")
	if err != nil || !isSSH(argv[0]) {
		return found
	}
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	options, err := remote.QueryOpenSSH(ctx, slices.Insert(argv, 1, "-G"), h.environ)
	if err != nil { // another program of that name
		return found
	}
	value := func(key string) string { return strings.Join(options[key], " ") }
	isSet := func(key string) bool { return value(key) != "" && value(key) != "none" }
	if isSet("hostname") && isSet("port") {
		found.target = "host " + value("hostname") + " port " + value("port")
	}
	if connect > 0 && !isSet("connecttimeout") && !isSet("proxyjump") && !isSet("proxycommand") {
		found.options = []string{"-o", fmt.Sprintf("ConnectTimeout=%d", int(connect.Seconds()))}
	}
	return found
}

// Target returns the host's name in messages, "" if unknown.
func (h *host) Target() string { return h.openSSH().target }
