package ssh

import (
	"bytes"
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

// knownFiles are files of known hosts, each read once.
type knownFiles struct {
	mu    sync.Mutex
	files map[string][]knownLine
}

// knownLine is one entry of a file of known hosts.
type knownLine struct {
	marker string // "", "@cert-authority" or "@revoked"
	hosts  []string
	key    ssh.PublicKey
	file   string
	line   int
}

// where is the place of the entry.
func (k knownLine) where() string { return fmt.Sprintf("%s:%d", k.file, k.line) }

// known is what all files together say.
type known []knownLine

// read reads the files that exist. A line that makes no sense is skipped, as OpenSSH
// does: it must not close the way to all other hosts.
func (k *knownFiles) read(lists ...[]string) (known, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.readLocked(lists...)
}

func (k *knownFiles) readLocked(lists ...[]string) (known, error) {
	var all known
	for _, file := range slices.Concat(lists...) {
		lines, ok := k.files[file]
		if !ok {
			text, err := os.ReadFile(file)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				return nil, err
			}
			lines = parseKnown(file, text)
			if k.files == nil {
				k.files = map[string][]knownLine{}
			}
			k.files[file] = lines
		}
		all = append(all, lines...)
	}
	return all, nil
}

// parseKnown reads the entries of one file.
func parseKnown(file string, text []byte) (lines []knownLine) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		words := strings.Fields(string(line))
		entry := knownLine{file: file, line: number}
		if len(words) > 0 && strings.HasPrefix(words[0], "@") {
			entry.marker, words = words[0], words[1:]
		}
		if len(words) < 3 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if entry.marker != "" && entry.marker != "@cert-authority" && entry.marker != "@revoked" {
			continue
		}
		blob, err := base64.StdEncoding.DecodeString(words[2])
		if err != nil {
			continue
		}
		if entry.key, err = ssh.ParsePublicKey(blob); err != nil || entry.key.Type() != words[1] {
			continue
		}
		entry.hosts = strings.Split(words[0], ",")
		lines = append(lines, entry)
	}
	return lines
}

// matches tells whether the entry is about a host by the name that it has in these
// files: "host" or "[host]:port".
func (k knownLine) matches(name string) bool {
	found := false
	for _, pattern := range k.hosts {
		if strings.HasPrefix(pattern, "|1|") {
			found = found || hashedMatch(pattern, name)
			continue
		}
		wanted, not := strings.CutPrefix(pattern, "!")
		if glob(strings.ToLower(wanted), name) {
			if not {
				return false
			}
			found = true
		}
	}
	return found
}

// hashedMatch compares a name with |1|SALT|HMAC-SHA1 of one.
func hashedMatch(pattern, name string) bool {
	salt64, hash64, _ := strings.Cut(strings.TrimPrefix(pattern, "|1|"), "|")
	salt, err := base64.StdEncoding.DecodeString(salt64)
	hash, err2 := base64.StdEncoding.DecodeString(hash64)
	if err != nil || err2 != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(name))
	return hmac.Equal(mac.Sum(nil), hash)
}

// glob matches * and ? as files of known hosts mean them: both stand for any byte.
func glob(pattern, text string) bool {
	if !strings.ContainsAny(pattern, "*?") {
		return pattern == text
	}
	wild := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
	matched, err := regexp.MatchString("(?s)^"+wild+"$", text)
	return err == nil && matched
}

// filedName is the host's name in files of known hosts.
func (s *settings) filedName() string {
	if s.hostKeyAlias != "" || s.port == 22 {
		return s.knownName()
	}
	return fmt.Sprintf("[%s]:%d", s.knownName(), s.port)
}

// names are those under which an entry may be: an entry without a port also vouches
// for a host on another port, as with OpenSSH, but only with the very same key.
func (s *settings) names() (own, other string) {
	own = s.filedName()
	if other = s.knownName(); other == own {
		other = ""
	}
	return own, other
}

// of are the entries that have a marker, those about each of some names.
func (k known) of(marker string, names ...string) (found []knownLine) {
	for _, name := range names {
		for _, line := range k {
			if name != "" && line.marker == marker && line.matches(name) {
				found = append(found, line)
			}
		}
	}
	return found
}

// sameKey compares public keys.
func sameKey(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// algorithms puts first what the host is known by: it may have several keys, of
// which only one is filed.
func (k known) algorithms(s *settings) []string {
	all := slices.Concat(ssh.SupportedAlgorithms().HostKeys)
	if len(s.hostKeyAlgorithms) > 0 {
		may := slices.Concat(all, ssh.InsecureAlgorithms().HostKeys)
		wished := slices.DeleteFunc(slices.Clone(s.hostKeyAlgorithms), func(name string) bool {
			return !slices.Contains(may, name)
		})
		if len(wished) > 0 {
			all = wished
		}
	}
	own, other := s.names()
	types := map[string]bool{}
	for _, line := range k.of("", own, other) {
		types[line.key.Type()] = true
	}
	authority := len(k.of("@cert-authority", own, other)) > 0
	rank := func(algorithm string) int {
		certificate := strings.Contains(algorithm, "-cert-")
		switch {
		case certificate && authority:
			return 0
		case !certificate && types[keyType(algorithm)]:
			return 1
		case !certificate:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(all, func(a, b string) int { return rank(a) - rank(b) })
	return all
}

// keyType is the type of the keys with which an algorithm signs.
func keyType(algorithm string) string {
	if algorithm == ssh.KeyAlgoRSASHA256 || algorithm == ssh.KeyAlgoRSASHA512 {
		return ssh.KeyAlgoRSA
	}
	return algorithm
}

// certificateProblem says why a certificate does not vouch for the host; foreign is
// true where no authority of these files signed it.
func (k known) certificateProblem(s *settings, cert *ssh.Certificate) (problem error, foreign bool) {
	own, other := s.names()
	authorities := k.of("@cert-authority", own, other)
	if !slices.ContainsFunc(authorities, func(line knownLine) bool { return sameKey(line.key, cert.SignatureKey) }) {
		return nil, true
	}
	checker := ssh.CertChecker{IsHostAuthority: func(ssh.PublicKey, string) bool { return true }}
	return checker.CheckHostKey(net.JoinHostPort(s.knownName(), "22"), nil, cert), false
}
