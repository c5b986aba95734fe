package ssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/internal/reach/remote"
)

// settings are the configuration of one host, with ~ and tokens expanded.
type settings struct {
	target     remote.Target
	configFile string // as the user gave it, "" for the default ones

	hostName, user string
	port           int
	family         string // "any", "inet" or "inet6"
	bindAddress    string
	connectTimeout time.Duration // 0 for none
	dialed         string        // the address of hostName that failed, "" for none

	identities, certificates []string
	identitiesOnly           bool
	defaultIdentities        bool   // not configured
	agent                    string // the agent's socket, "" for none

	proxyJump, proxyCommand string // "" for none

	userKnown, globalKnown []string
	hostKeyAlias           string
	hostKeyAlgorithms      []string // empty: the default ones
	strict                 string   // "yes", "no", "accept-new" or "ask"
	hashKnown              bool
}

// address is the TCP address.
func (s *settings) address() string { return net.JoinHostPort(s.hostName, strconv.Itoa(s.port)) }

// String is user@host:port, for messages.
func (s *settings) String() string {
	text := s.user + "@" + s.address()
	if s.dialed != "" {
		text += " (" + s.dialed + ")"
	}
	return text
}

// arguments are those with which ssh reaches the same host.
func (s *settings) arguments() string {
	var words []string
	if s.configFile != "" {
		words = append(words, "-F", shellwords.Quote(s.configFile))
	}
	if s.target.User != "" {
		words = append(words, "-l", shellwords.Quote(s.target.User))
	}
	if s.target.Port != 0 {
		words = append(words, "-p", strconv.Itoa(s.target.Port))
	}
	return strings.Join(append(words, shellwords.Quote(s.target.Name)), " ")
}

// copyIDArguments are those of ssh-copy-id, which has -F in newer versions only.
func (s *settings) copyIDArguments() string {
	words := ""
	if s.port != 22 {
		words = fmt.Sprintf("-p %d ", s.port)
	}
	return words + shellwords.Quote(s.user+"@"+s.target.Name)
}

// settings reads the configuration of a host: with OpenSSH if it is installed, else with a parser of the common part of
// the language.
func (c *Client) settings(ctx context.Context, target remote.Target) (*settings, error) {
	if target.Name == "" || strings.ContainsAny(target.Name, " \t\n\x00") {
		return nil, fmt.Errorf("%q is not a host name", target.Name)
	}
	var options map[string][]string
	var err error
	if program := c.lookPath("ssh"); program != "" {
		options, err = c.queryOpenSSH(ctx, program, target)
	} else {
		options, err = c.parseConfig(target)
	}
	if err != nil {
		return nil, err
	}
	return c.fromOptions(target, options)
}

// lookPath finds a program in the user's PATH; "" if none exists.
func (c *Client) lookPath(name string) string {
	for _, dir := range filepath.SplitList(c.environ["PATH"]) {
		path := filepath.Join(cmp.Or(dir, "."), name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// queryOpenSSH runs ssh -G.
func (c *Client) queryOpenSSH(ctx context.Context, program string, target remote.Target) (map[string][]string, error) {
	select {
	case c.queries <- struct{}{}:
		defer func() { <-c.queries }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	arguments := []string{program, "-G", "-T"}
	if c.config.ConfigFile != "" {
		arguments = append(arguments, "-F", c.config.ConfigFile)
	}
	if target.User != "" {
		arguments = append(arguments, "-l", target.User)
	}
	if target.Port != 0 {
		arguments = append(arguments, "-p", strconv.Itoa(target.Port))
	}
	options, err := remote.QueryOpenSSH(ctx, append(arguments, "--", target.Name), c.config.Environ)
	if err != nil {
		return nil, errors.New(printable.Text(printable.Short(err.Error())))
	}
	return options, nil
}

// fromOptions converts keywords (in lower case) and their values.
func (c *Client) fromOptions(target remote.Target, options map[string][]string) (*settings, error) {
	one := func(key string) string {
		if values := options[key]; len(values) > 0 && !strings.EqualFold(values[0], "none") {
			return strings.TrimSpace(values[0])
		}
		return ""
	}
	s := &settings{target: target, configFile: c.config.ConfigFile, user: one("user"), family: one("addressfamily")}
	s.bindAddress, s.hostKeyAlias, s.proxyJump = one("bindaddress"), one("hostkeyalias"), one("proxyjump")
	s.hostName = cmp.Or(one("hostname"), target.Name)
	s.identitiesOnly, s.hashKnown = isYes(one("identitiesonly")), isYes(one("hashknownhosts"))
	s.strict = strictness(one("stricthostkeychecking"))
	if list := one("hostkeyalgorithms"); list != "" {
		s.hostKeyAlgorithms = strings.Split(list, ",")
	}
	var err error
	if s.port, err = strconv.Atoi(cmp.Or(one("port"), "22")); err != nil || s.port < 1 || s.port > 65535 {
		return nil, fmt.Errorf("port %q is not a number from 1 to 65535", one("port"))
	}
	if wait := one("connecttimeout"); wait != "" {
		seconds, err := strconv.Atoi(wait)
		if err != nil {
			return nil, fmt.Errorf("ConnectTimeout %q is not a number of seconds", wait)
		}
		s.connectTimeout = time.Duration(seconds) * time.Second
	}
	if isYes(one("proxyusefdpass")) && one("proxycommand") != "" {
		return nil, errors.New("ProxyUseFdpass is not supported: use --ssh ssh")
	}
	return s, c.expandAll(s, options, one("proxycommand"), one("identityagent"))
}

// expandAll sets the values that contain ~, tokens or variables.
func (c *Client) expandAll(s *settings, options map[string][]string, proxyCommand, agent string) error {
	var problems []error
	expand := func(text string) string {
		expanded, err := c.expand(s, text)
		problems = append(problems, err)
		return expanded
	}
	files := func(key string) (paths []string) {
		for _, value := range options[key] {
			if value = strings.Trim(value, `"`); !strings.EqualFold(value, "none") {
				paths = append(paths, c.tilde(expand(value)))
			}
		}
		return paths
	}
	lists := func(key string) (paths []string) {
		for _, value := range options[key] {
			for _, word := range splitQuoted(value) {
				if !strings.EqualFold(word, "none") {
					paths = append(paths, c.tilde(expand(word)))
				}
			}
		}
		return paths
	}
	s.identities, s.certificates = files("identityfile"), files("certificatefile")
	s.defaultIdentities = slices.Contains(options["identityfile"], defaultIdentity)
	s.userKnown, s.globalKnown = lists("userknownhostsfile"), lists("globalknownhostsfile")
	if proxyCommand != "" {
		s.proxyCommand = expand(proxyCommand)
		for _, name := range []string{s.target.Name, s.hostName, s.user} {
			problems = append(problems, checkForShell(name))
		}
	}
	switch named, set := options["identityagent"]; {
	case !set || agent == "SSH_AUTH_SOCK":
		s.agent = c.environ["SSH_AUTH_SOCK"]
	case strings.EqualFold(named[0], "none"):
	case strings.HasPrefix(agent, "$") && !strings.HasPrefix(agent, "${"):
		s.agent = c.environ[agent[1:]]
	default:
		s.agent = c.tilde(expand(strings.Trim(agent, `"`)))
	}
	return errors.Join(problems...)
}

// checkForShell refuses a name that the shell of the proxy command would not take literally.
func checkForShell(name string) error {
	for i := range len(name) {
		if c := name[i]; c < 0x80 && c != '\\' && !shellwords.Plain(c) || i == 0 && (c == '-' || c == '=') {
			return fmt.Errorf("ProxyCommand: unsafe name %q", name)
		}
	}
	return nil
}

// defaultIdentity is among the identities only if none is configured.
const defaultIdentity = "~/.ssh/id_ecdsa"

func isYes(value string) bool {
	return value == "yes" || value == "true"
}

// strictness normalizes StrictHostKeyChecking.
func strictness(value string) string {
	switch value {
	case "yes", "true":
		return "yes"
	case "no", "false", "off":
		return "no"
	case "accept-new":
		return "accept-new"
	}
	return "ask"
}

// tilde replaces a leading ~/ with the home directory.
func (c *Client) tilde(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(c.environ["HOME"], rest)
	}
	return path
}

// splitQuoted splits at blanks outside double quotation marks.
func splitQuoted(text string) (words []string) {
	var quoted, inside bool
	var word strings.Builder
	for _, r := range text + " " {
		switch {
		case r == '"':
			quoted, inside = !quoted, true
		case (r == ' ' || r == '\t') && !quoted:
			if inside {
				words = append(words, word.String())
			}
			word.Reset()
			inside = false
		default:
			word.WriteRune(r)
			inside = true
		}
	}
	return words
}
