package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorun/launcher/internal/process/child"
)

// openSSH is what is known of a host where the program is OpenSSH's ssh.
type openSSH struct {
	options []string // that are added behind the program's name
	// target is what ssh's messages call the host, "" if that is not known.
	target string
}

// askLimit is for ssh -G: 4 to 7 ms, but for commands after 'Match exec'.
const askLimit = 5 * time.Second

// askOpenSSH asks ssh itself what the user's options and files say of the host. A limit of a connection is
// added where they have none. It counts up to the host's first words, so that it is none where a jump
// host or a proxy command comes first: that one may be slow to log in to.
func (h *host) askOpenSSH(connect time.Duration) (found openSSH) {
	words, err := Words(h.words, h.target, "true")
	if err != nil || !isSSH(words[0]) {
		return found
	}
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	ask := child.CommandContext(ctx, words[0], slices.Insert(words[1:], 0, "-G")...)
	ask.Env, ask.WaitDelay = h.environ, time.Second
	dump, err := ask.Output()
	if err != nil { // another program of that name
		return found
	}
	said := map[string]string{}
	for line := range strings.Lines(string(dump)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		said[key] = value
	}
	isSet := func(key string) bool { return said[key] != "" && said[key] != "none" }
	if isSet("hostname") && isSet("port") {
		found.target = "host " + said["hostname"] + " port " + said["port"]
	}
	if connect > 0 && !isSet("connecttimeout") && !isSet("proxyjump") && !isSet("proxycommand") {
		found.options = []string{"-o", fmt.Sprintf("ConnectTimeout=%d", int(connect.Seconds()))}
	}
	return found
}

// Target is what messages call the host, "" if that is not known.
func (h *host) Target() string { return h.openSSH().target }
