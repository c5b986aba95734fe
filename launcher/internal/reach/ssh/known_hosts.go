package ssh

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha1" // #nosec G505 -- OpenSSH hashes names so
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
)

// knownHosts caches known_hosts files. It is our own reader, as x/crypto's rejects a whole file for one malformed line,
// and accepts no entry without a port for a host on another port.
type knownHosts struct {
	mu    sync.Mutex
	files map[string][]knownLine
}

// knownLine is an entry of a known_hosts file.
type knownLine struct {
	marker string // "", "cert-authority" or "revoked"
	hosts  []string
	key    ssh.PublicKey
	file   string
	line   int
}

func (k knownLine) position() string { return fmt.Sprintf("%s:%d", k.file, k.line) }

// knownLines are the entries of several files.
type knownLines []knownLine

// read returns the entries of a host's files.
func (k *knownHosts) read(s *settings) (knownLines, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.readLocked(s)
}

func (k *knownHosts) readLocked(s *settings) (knownLines, error) {
	var all knownLines
	for _, file := range slices.Concat(s.userKnown, s.globalKnown) {
		lines, ok := k.files[file]
		if !ok {
			text, err := os.ReadFile(file)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				return nil, err
			}
			lines = parseKnown(file, text)
			k.files[file] = lines
		}
		all = append(all, lines...)
	}
	return all, nil
}

// parseKnown parses a file. It skips malformed lines, as OpenSSH does: one must not make all other hosts unreachable.
func parseKnown(file string, text []byte) (lines []knownLine) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		marker, hosts, key, _, _, err := ssh.ParseKnownHosts(line)
		if err == nil {
			lines = append(lines, knownLine{marker: marker, hosts: hosts, key: key, file: file, line: number})
		}
	}
	return lines
}

// matches reports whether the entry is for a host with the name "host" or "[host]:port".
func (k knownLine) matches(name string) bool {
	found := false
	for _, pattern := range k.hosts {
		if strings.HasPrefix(pattern, "|1|") {
			found = found || hashedMatch(pattern, name)
			continue
		}
		positive, negated := strings.CutPrefix(pattern, "!")
		if glob(strings.ToLower(positive), name) {
			if negated {
				return false
			}
			found = true
		}
	}
	return found
}

// hashedMatch compares a name with |1|SALT|HMAC-SHA1.
func hashedMatch(pattern, name string) bool {
	salt64, hash64, _ := strings.Cut(strings.TrimPrefix(pattern, "|1|"), "|")
	salt, err1 := base64.StdEncoding.DecodeString(salt64)
	hash, err2 := base64.StdEncoding.DecodeString(hash64)
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(name))
	return cmp.Or(err1, err2) == nil && hmac.Equal(mac.Sum(nil), hash)
}

// glob matches * and ?, both of which match any byte here.
func glob(pattern, text string) bool {
	if !strings.ContainsAny(pattern, "*?") {
		return pattern == text
	}
	expression := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
	matched, err := regexp.MatchString("(?s)^"+expression+"$", text)
	return err == nil && matched
}

// knownNames returns the host's name in known_hosts files. An entry with the name portless counts for another port,
// too,
// as with OpenSSH, if it has the very same key; portless is "" if it would equal name.
func (s *settings) knownNames() (name, portless string) {
	base := s.knownName()
	if s.hostKeyAlias != "" || s.port == 22 {
		return base, ""
	}
	return fmt.Sprintf("[%s]:%d", base, s.port), base
}

// find returns the entries with a marker for the names.
func (k knownLines) find(marker string, names ...string) (found []knownLine) {
	for _, name := range names {
		for _, line := range k {
			if name != "" && line.marker == marker && line.matches(name) {
				found = append(found, line)
			}
		}
	}
	return found
}

func sameKey(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// algorithms returns the host key algorithms in order of preference: those of known keys first, as only one of several
// keys may be recorded.
func (k knownLines) algorithms(s *settings) []string {
	all := slices.Concat(ssh.SupportedAlgorithms().HostKeys)
	if len(s.hostKeyAlgorithms) > 0 {
		possible := slices.Concat(all, ssh.InsecureAlgorithms().HostKeys)
		configured := slices.DeleteFunc(slices.Clone(s.hostKeyAlgorithms), func(name string) bool {
			return !slices.Contains(possible, name)
		})
		if len(configured) > 0 {
			all = configured
		}
	}
	name, portless := s.knownNames()
	types := map[string]bool{}
	for _, line := range k.find("", name, portless) {
		types[line.key.Type()] = true
	}
	hasAuthority := len(k.find("cert-authority", name, portless)) > 0
	order := func(algorithm string) int {
		isCertificate := strings.Contains(algorithm, "-cert-")
		switch {
		case isCertificate && hasAuthority:
			return 0
		case !isCertificate && types[keyType(algorithm)]:
			return 1
		case !isCertificate:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(all, func(a, b string) int { return order(a) - order(b) })
	return all
}

// keyType returns the type of the keys of a signature algorithm.
func keyType(algorithm string) string {
	if algorithm == ssh.KeyAlgoRSASHA256 || algorithm == ssh.KeyAlgoRSASHA512 {
		return ssh.KeyAlgoRSA
	}
	return algorithm
}

// checkCertificate checks a certificate; trusted says whether an authority in these files signed it.
func (k knownLines) checkCertificate(s *settings, cert *ssh.Certificate) (problem error, trusted bool) {
	name, portless := s.knownNames()
	authorities := k.find("cert-authority", name, portless)
	if !slices.ContainsFunc(authorities, func(line knownLine) bool { return sameKey(line.key, cert.SignatureKey) }) {
		return nil, false
	}
	checker := ssh.CertChecker{IsHostAuthority: func(ssh.PublicKey, string) bool { return true }}
	return checker.CheckHostKey(net.JoinHostPort(s.knownName(), "22"), nil, cert), true
}
