package testhosts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// User is an additional user of a host.
type User struct {
	Name  string
	UID   int               // and group id; 0: the lowest free one from 2000 on
	Shell string            // "/usr/bin/fish"; "" is /bin/sh
	Files map[string]string // text of files below the home: ".bashrc", ".config/fish/config.fish"
}

// AddUser adds a user to a host, who can log in with the set's key: ssh -F CONFIG -l NAME HOST. The home is
// /run/home/NAME; AddUser returns its path in this process.
func (s *Set) AddUser(host string, user User) (home string, err error) {
	passwd := s.own(host, "etc", "passwd")
	lines, err := os.ReadFile(passwd)
	if err != nil {
		return "", err
	}
	if user.UID == 0 {
		user.UID = freeUID(string(lines))
	}
	if user.Shell == "" {
		user.Shell = "/bin/sh"
	}
	home = s.own(host, "home", user.Name)
	if err := writeHome(home, user); err != nil {
		return "", err
	}
	there := "/run/home/" + user.Name
	return home, errors.Join(
		appendLine(passwd, fmt.Sprintf("%s:x:%d:%d::%s:%s", user.Name, user.UID, user.UID, there, user.Shell)),
		appendLine(s.own(host, "etc", "shadow"), user.Name+":*:20000:0:99999:7:::"),
		appendLine(s.own(host, "etc", "group"), fmt.Sprintf("%s:x:%d:", user.Name, user.UID)),
		s.run(host, "mkdir", "-p", there),
		s.Mount(host, "--bind", home, there),
	)
}

// freeUID returns the lowest free user id from 2000 on in a passwd file.
func freeUID(passwd string) int {
	for uid := 2000; ; uid++ {
		if !strings.Contains(passwd, ":x:"+strconv.Itoa(uid)+":") {
			return uid
		}
	}
}

// writeHome makes a user's home.
func writeHome(home string, user User) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	for name, text := range user.Files {
		path := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	return filepath.Walk(home, func(path string, _ os.FileInfo, err error) error {
		return errors.Join(err, os.Lchown(path, user.UID, user.UID))
	})
}

// appendLine appends to a file in place, as the host mounts this very file.
func appendLine(path, line string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line + "\n")
	return errors.Join(err, file.Close())
}

// SetShell changes the login shell of a user, such as "root", "/usr/bin/tcsh".
func (s *Set) SetShell(host, user, shell string) error {
	path := s.own(host, "etc", "passwd")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if words := strings.Split(line, ":"); words[0] == user {
			words[len(words)-1] = shell
			lines[i] = strings.Join(words, ":")
			return os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644)
		}
	}
	return fmt.Errorf("give %s the shell %s: %s has no such user", user, shell, host)
}
