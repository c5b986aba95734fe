package testhosts

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Dir returns the state folder, which Down removes. All hosts see it, and tests may use it.
func (s *Set) Dir() string { return s.dir }

// SSHConfig returns the path of an ssh_config(5) for all hosts: HostName, HostKeyAlias, User, key, strict
// known_hosts, no
// agent.
func (s *Set) SSHConfig() string { return s.path("ssh_config") }

// KnownHosts returns the path of a known_hosts file with every host by name and address.
func (s *Set) KnownHosts() string { return s.path("known_hosts") }

// Key returns the path of the private key (ed25519, no passphrase) that every host accepts; Key()+".pub" is its
// public part.
func (s *Set) Key() string { return s.path("id_ed25519") }

// HostKey returns the path of a host's private key; HostKey(host)+".pub" is its public part.
func (s *Set) HostKey(host string) string { return s.own(host, "host_key") }

// HostFile returns the path of a file with the names h1 to hN, one a line.
func (s *Set) HostFile() string { return s.path("hostfile") }

// SSH returns the path of a program that runs ssh with SSHConfig, for options that take only a program.
func (s *Set) SSH() string { return s.path("ssh") }

// Home returns the path in this process of root's private home on a host (see Config.PrivateHome).
func (s *Set) Home(host string) string { return s.own(host, "home", "root") }

// path returns the path of a file of the set, own that of a host's.
func (s *Set) path(name string) string { return filepath.Join(s.dir, name) }

func (s *Set) own(host string, name ...string) string {
	return filepath.Join(append([]string{s.dir, host}, name...)...)
}

// writeHostFiles makes a host's key and the files that are mounted over those in its /etc.
func (s *Set) writeHostFiles(h *host) error {
	if err := errors.Join(os.MkdirAll(s.own(h.name, "etc"), 0o755), os.MkdirAll(s.Home(h.name), 0o700)); err != nil {
		return err
	}
	if err := makeKey(s.HostKey(h.name), h.name); err != nil {
		return err
	}
	files := map[string]string{"hosts": s.namesFile(), "machine-id": randomID(), "boot_id": bootID()}
	for _, name := range []string{"passwd", "shadow", "group"} {
		text, err := os.ReadFile(filepath.Join("/etc", name))
		if err != nil {
			return err
		}
		files[name] = string(text)
	}
	files["shadow"] = unlockRoot(files["shadow"])
	for name, text := range files {
		mode := os.FileMode(0o644)
		if name == "shadow" {
			mode = 0o600
		}
		if err := os.WriteFile(s.own(h.name, "etc", name), []byte(text), mode); err != nil {
			return err
		}
	}
	return nil
}

// unlockRoot replaces root's password: sshd without PAM refuses a locked account ("!"), even with a key.
func unlockRoot(shadow string) string {
	rest, found := strings.CutPrefix(shadow, "root:")
	if !found {
		return shadow
	}
	_, rest, _ = strings.Cut(rest, ":")
	return "root:*:" + rest
}

// namesFile returns the text of the hosts' /etc/hosts.
func (s *Set) namesFile() string {
	text := "127.0.0.1 localhost\n::1 localhost\n"
	for _, h := range s.all() {
		text += h.address + " " + h.name + "\n"
	}
	return text
}

// randomID returns an id as in /etc/machine-id, bootID one as in /proc/sys/kernel/random/boot_id.
func randomID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id) + "\n"
}

func bootID() string {
	id := randomID()
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

// makeKey writes a key pair.
func makeKey(path, comment string) error {
	out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ssh-keygen: %w: %s", err, out)
	}
	return nil
}

// writeSetFiles makes the files for all hosts.
func (s *Set) writeSetFiles() error {
	if err := makeKey(s.Key(), "testhosts"); err != nil {
		return err
	}
	wrapper := "#!/bin/sh\nexec ssh -F '" + s.SSHConfig() + "' \"$@\"\n"
	return errors.Join(
		os.WriteFile(s.HostFile(), []byte(strings.Join(s.Hosts(), "\n")+"\n"), 0o644),
		os.WriteFile(s.SSH(), []byte(wrapper), 0o755),
		s.writeClientFiles(),
	)
}

// writeClientFiles makes ssh_config and known_hosts, which depend on the ports of the hosts' sshd.
func (s *Set) writeClientFiles() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var config, known strings.Builder
	for _, h := range s.all() {
		fmt.Fprintf(&config, "Host %s\n  HostName %s\n  HostKeyAlias %s\n  Port %d\n", h.name, h.address, h.name, h.port)
		public, err := os.ReadFile(s.HostKey(h.name) + ".pub")
		if err != nil {
			return err
		}
		names := h.name + "," + h.address
		if h.port != 22 {
			names += fmt.Sprintf(",[%s]:%d,[%s]:%d", h.name, h.port, h.address, h.port)
		}
		words := strings.Fields(string(public))
		fmt.Fprintf(&known, "%s %s %s\n", names, words[0], words[1])
	}
	fmt.Fprintf(&config, `Host *
  User root
  IdentityFile %s
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile %s
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  HashKnownHosts no
`, s.Key(), s.KnownHosts())
	return errors.Join(
		os.WriteFile(s.SSHConfig(), []byte(config.String()), 0o644),
		os.WriteFile(s.KnownHosts(), []byte(known.String()), 0o644),
	)
}
