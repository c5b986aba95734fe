package ssh

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kevinburke/ssh_config"

	"gorun/launcher/internal/reach/remote"
)

// systemConfig is read after the user's file.
const systemConfig = "/etc/ssh/ssh_config"

// parseConfig reads the configuration without OpenSSH. The library refuses what it does not support (Match with other
// criteria than host and all): a wrong guess could lead to another host.
func (c *Client) parseConfig(target remote.Target) (map[string][]string, error) {
	files := []string{c.config.ConfigFile}
	if c.config.ConfigFile == "" {
		files = []string{filepath.Join(c.environ["HOME"], ".ssh", "config"), systemConfig}
	}
	options := map[string][]string{}
	for _, file := range files {
		if err := parseFile(file, c.config.ConfigFile != "", target.Name, options); err != nil {
			return nil, err
		}
	}
	c.addDefaults(target, options)
	return options, nil
}

// cumulative are the keywords of which every occurrence counts, not only the first.
var cumulative = []string{"identityfile", "certificatefile"}

// firstOnly are the other keywords that settings use.
var firstOnly = []string{
	"hostname", "user", "port", "addressfamily", "bindaddress", "connecttimeout", "identitiesonly", "identityagent",
	"proxyjump", "proxycommand", "proxyusefdpass", "userknownhostsfile", "globalknownhostsfile", "hostkeyalias",
	"hostkeyalgorithms",
	"stricthostkeychecking", "hashknownhosts",
}

// parseFile adds the options of a host in one file.
func parseFile(file string, required bool, name string, options map[string][]string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && !required {
		return nil
	}
	if err != nil {
		return err
	}
	config, err := ssh_config.Decode(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w; install OpenSSH, and gorun has ssh read the file", file, err)
	}
	for _, key := range cumulative {
		values, err := config.GetAll(name, key)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		options[key] = append(options[key], values...)
	}
	for _, key := range firstOnly {
		if len(options[key]) > 0 {
			continue
		}
		value, err := config.Get(name, key)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if value != "" {
			options[key] = []string{value}
		}
	}
	return nil
}

// addDefaults completes options as ssh does; those of the target win.
func (c *Client) addDefaults(target remote.Target, options map[string][]string) {
	set := func(key string, values ...string) {
		if len(options[key]) == 0 {
			options[key] = values
		}
	}
	if target.User != "" {
		options["user"] = []string{target.User}
	}
	if target.Port != 0 {
		options["port"] = []string{strconv.Itoa(target.Port)}
	}
	if name := options["hostname"]; len(name) > 0 { // %h is the name that the user gave
		options["hostname"] = []string{strings.NewReplacer("%%", "%", "%h", target.Name).Replace(name[0])}
	}
	if list := options["hostkeyalgorithms"]; len(list) > 0 && strings.ContainsAny(list[0][:1], "+-^") {
		delete(options, "hostkeyalgorithms") // it changes OpenSSH's own default
	}
	set("user", cmp.Or(c.environ["USER"], c.environ["LOGNAME"], "root"))
	set("identityfile", "~/.ssh/id_rsa", defaultIdentity, "~/.ssh/id_ecdsa_sk", "~/.ssh/id_ed25519",
		"~/.ssh/id_ed25519_sk")
	set("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")
	set("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2")
}
