package dialect

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"strings"

	"gorun/internal/shellwords"
	"gorun/launcher/job"
)

// TokenFile is a file with a secret, as it was when it was opened.
type TokenFile struct {
	Content []byte
	Mode    fs.FileMode
	UID     int // owner
}

// resolveToken sets how nodes that join authenticate: by the token of an option, of the variable, or of
// the user's own file.
func (p *Line) resolveToken(j *job.JoinSpec) {
	j.Insecure = p.insecureFrom != "" || p.dialect.python && !isLoopback(j.Addr)
	from, token, own := p.tokenFile.From, p.variable("GORUN_TOKEN"), p.DefaultTokenFile()
	var err error
	switch {
	case from != "":
		j.Token, err = p.readToken(p.tokenFile.Value)
	case token != "":
		from = "GORUN_TOKEN"
		j.Token, err = parseToken(token)
	case own != "":
		from = own
		if j.OwnToken, err = p.readToken(own); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	switch {
	case err != nil:
		p.problem("%s: %w", from, err)
	case p.insecureFrom != "" && (j.Token != "" || j.OwnToken != ""):
		p.note("%s has no effect: nodes need the token of %s", p.insecureFrom, from)
	}
}

// isLoopback reports whether an address means every host itself.
func isLoopback(addr string) bool {
	ip, err := netip.ParseAddr(addr)
	return addr == "localhost" || err == nil && ip.IsLoopback()
}

// DefaultTokenFile returns the file of `gorun token --save`, or "" if no home directory is known.
func (p *Line) DefaultTokenFile() string {
	dir := p.variable("XDG_CONFIG_HOME")
	if !path.IsAbs(dir) {
		home := p.variable("HOME")
		if !path.IsAbs(home) {
			return ""
		}
		dir = path.Join(home, ".config")
	}
	return path.Join(dir, "gorun", "token")
}

func (p *Line) readToken(name string) (string, error) {
	file, err := p.around.ReadToken(name)
	if err == nil {
		err = p.checkTokenFile(name, file)
	}
	if err != nil {
		return "", err
	}
	return parseToken(string(file.Content))
}

func parseToken(text string) (string, error) {
	secret, err := job.ParseToken(strings.TrimSpace(text))
	if err != nil {
		return "", err
	}
	return secret.Text(), nil
}

// checkTokenFile refuses a secret that other users can read or have made. A group may read root's files:
// Kubernetes mounts secrets so for pods of other users.
func (p *Line) checkTokenFile(name string, file TokenFile) error {
	denied := fs.FileMode(0o077)
	if file.UID == 0 {
		denied = 0o027
	}
	word := shellwords.Quote(name)
	switch {
	case !file.Mode.IsRegular():
		return fmt.Errorf("not a regular file; use GORUN_TOKEN=\"$(cat %s)\" in its place", word)
	case file.UID != 0 && file.UID != p.around.UID:
		return fmt.Errorf("it belongs to uid %d, which knows this secret: create your own with gorun token --out FILE",
			file.UID)
	case file.Mode.Perm()&denied != 0:
		return fmt.Errorf("others can read or write this secret (mode %#o): chmod 600 %s", file.Mode.Perm(), word)
	}
	return nil
}
