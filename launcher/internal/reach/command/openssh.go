package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorun/launcher/internal/reach/remote"
)

// openSSH is what is known of a host where the program is OpenSSH's ssh.
type openSSH struct {
	options []string // that are added behind the program's name
	// target is what ssh's messages call the host, "" if that is not known.
	target string
}

// askLimit is for ssh -G.
const askLimit = 5 * time.Second

// askOpenSSH asks ssh itself what the user's options and files say of the host. A limit of a connection is
// added where they have none. It counts up to the host's first words, so that it is none where a jump
// host or a proxy command comes first: that one may be slow to log in to.
func (h *host) askOpenSSH(connect time.Duration) (found openSSH) {
	words, err := Argv(h.words, h.target, "true")
	if err != nil || !isSSH(words[0]) {
		return found
	}
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	options, err := remote.QueryOpenSSH(ctx, slices.Insert(words, 1, "-G"), h.environ)
	if err != nil { // another program of that name
		return found
	}
	said := func(key string) string { return strings.Join(options[key], " ") }
	isSet := func(key string) bool { return said(key) != "" && said(key) != "none" }
	if isSet("hostname") && isSet("port") {
		found.target = "host " + said("hostname") + " port " + said("port")
	}
	if connect > 0 && !isSet("connecttimeout") && !isSet("proxyjump") && !isSet("proxycommand") {
		found.options = []string{"-o", fmt.Sprintf("ConnectTimeout=%d", int(connect.Seconds()))}
	}
	return found
}

// Target is what messages call the host, "" if that is not known.
func (h *host) Target() string { return h.openSSH().target }
