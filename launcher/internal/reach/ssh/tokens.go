package ssh

import (
	"crypto/sha1" // #nosec G505 -- OpenSSH's %C is one
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// expand replaces the tokens of ssh_config(5) and ${VARIABLES} of the environment.
func (c *Client) expand(s *settings, text string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case rest[0] == '%' && len(rest) > 1:
			value, err := c.token(s, rest[1])
			if err != nil {
				return "", fmt.Errorf("%s: %w", text, err)
			}
			b.WriteString(value)
			i++
		case strings.HasPrefix(rest, "${") && strings.Contains(rest, "}"):
			name := rest[2:strings.IndexByte(rest, '}')]
			value, set := c.environ[name]
			if !set {
				return "", fmt.Errorf("%s: the variable %s is not set", text, name)
			}
			b.WriteString(value)
			i += len(name) + 2
		default:
			b.WriteByte(rest[0])
		}
	}
	return b.String(), nil
}

// token returns the value of %LETTER.
func (c *Client) token(s *settings, letter byte) (string, error) {
	port := strconv.Itoa(s.port)
	switch letter {
	case '%':
		return "%", nil
	case 'd':
		return c.environ["HOME"], nil
	case 'h':
		return s.hostName, nil
	case 'i':
		return strconv.Itoa(os.Getuid()), nil
	case 'j':
		return s.proxyJump, nil
	case 'k':
		return s.knownName(), nil
	case 'n':
		return s.target.Name, nil
	case 'p':
		return port, nil
	case 'r':
		return s.user, nil
	case 'u':
		return c.environ["USER"], nil
	}
	localHost, err := os.Hostname()
	if err != nil {
		return "", err
	}
	switch letter {
	case 'l':
		return localHost, nil
	case 'L':
		short, _, _ := strings.Cut(localHost, ".")
		return short, nil
	case 'C':
		sum := sha1.Sum([]byte(localHost + s.hostName + port + s.user + s.proxyJump)) // #nosec G401 -- as OpenSSH
		return hex.EncodeToString(sum[:]), nil
	}
	return "", fmt.Errorf("unknown token %%%c", letter)
}

// knownName is the host's name in known_hosts files, without a port.
func (s *settings) knownName() string {
	if s.hostKeyAlias != "" {
		return strings.ToLower(s.hostKeyAlias)
	}
	return strings.ToLower(s.hostName)
}
