package dialect

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"strings"

	"gorun/launcher/job"
)

// TokenFile is a file with a secret, as it was when it was opened.
type TokenFile struct {
	Content []byte
	Mode    fs.FileMode
	UID     int // its owner
}

// joinSecret is by what nodes that join each other know each other: a token from an option,
// from the variable, or else the user's own.
func (p *Line) joinSecret(j *job.JoinSpec) {
	j.Insecure = p.insecure != "" || p.dialect.python && !isLoopback(j.Addr)
	token, _ := p.around.Lookup("GORUN_TOKEN")
	own := ownTokenFile(p.around)
	var (
		from string
		err  error
	)
	switch {
	case p.tokenFile.From != "":
		from = p.tokenFile.From
		j.Token, err = p.tokenIn(p.tokenFile.Value)
	case token != "":
		from = "GORUN_TOKEN"
		j.Token, err = parseToken(token)
	case own != "":
		from = own
		if j.OwnToken, err = p.tokenIn(own); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	switch {
	case err != nil:
		p.problem("%s: %w", from, err)
	case p.insecure != "" && (j.Token != "" || j.OwnToken != ""):
		p.Note(fmt.Sprintf("%s has no effect: nodes need the token of %s", p.insecure, from))
	}
}

// isLoopback reports whether an address, as it was typed, means each host itself.
func isLoopback(addr string) bool {
	ip, err := netip.ParseAddr(addr)
	return addr == "localhost" || err == nil && ip.IsLoopback()
}

// ownTokenFile is where `gorun token --save` puts the user's own token; "" where no home
// directory is known.
func ownTokenFile(around Surroundings) string {
	dir, _ := around.Lookup("XDG_CONFIG_HOME")
	if !path.IsAbs(dir) {
		home, _ := around.Lookup("HOME")
		if !path.IsAbs(home) {
			return ""
		}
		dir = path.Join(home, ".config")
	}
	return path.Join(dir, "gorun", "token")
}

// tokenIn reads a token from a file.
func (p *Line) tokenIn(name string) (string, error) {
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

// checkTokenFile refuses a secret that other users can read or have made. A group may read
// what root owns, as Kubernetes mounts it where a pod's user is not root.
func (p *Line) checkTokenFile(name string, file TokenFile) error {
	denied := fs.FileMode(0o077)
	if file.UID == 0 {
		denied = 0o027
	}
	word := shellWord(name)
	switch {
	case !file.Mode.IsRegular():
		return fmt.Errorf("not a regular file; use GORUN_TOKEN=\"$(cat %s)\" in its place", word)
	case file.UID != 0 && file.UID != p.around.UID:
		return fmt.Errorf("it belongs to uid %d, who knows this secret: make a token of your own by gorun token --out FILE",
			file.UID)
	case file.Mode.Perm()&denied != 0:
		return fmt.Errorf("others may read or write this secret (mode %#o): chmod 600 %s", file.Mode.Perm(), word)
	}
	return nil
}
