package ssh

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"gorun/internal/printable"
)

// keyring holds the user's keys, each read and unlocked once for all hosts.
type keyring struct {
	ask func(prompt string) (string, error)

	mu     sync.Mutex
	files  map[string]*keyFile
	agents map[string]*agentLink
	asking sync.Mutex // one question at a time
}

// keyFile is what a file of an identity holds. A file with a public key alone stands
// for a private key in the agent.
type keyFile struct {
	path   string
	signer ssh.AlgorithmSigner // nil without a private key that can be used as it is
	text   []byte              // of a locked key
	locked bool
	err    error // why the file is of no use, nil if it is not there either

	mu    sync.Mutex
	known ssh.PublicKey // nil if unknown, as an old form of locked keys leaves it

	unlock sync.Once
	opened ssh.AlgorithmSigner // what unlock came to
	failed error
}

// public is the public half, nil as long as nobody knows it.
func (f *keyFile) public() ssh.PublicKey {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known
}

// setPublic says what the public half is.
func (f *keyFile) setPublic(public ssh.PublicKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known = public
}

// agentLink is a connection to an agent; x/crypto's client may be shared.
type agentLink struct {
	conn   net.Conn
	client agent.ExtendedAgent
}

// askError is a passphrase that was not given.
type askError struct {
	path  string
	cause error
}

func (a *askError) Error() string {
	return fmt.Sprintf("the key %s is not unlocked: %v", a.path, a.cause)
}
func (a *askError) Unwrap() error { return a.cause }

func (k *keyring) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, link := range k.agents {
		_ = link.conn.Close()
	}
	k.agents = nil
}

// offeredKey is a key that the server may be shown.
type offeredKey struct {
	ssh.AlgorithmSigner
	source string // the file, or the agent's comment

	mu    sync.Mutex
	shown bool
}

// PublicKey is asked for when the key is offered.
func (o *offeredKey) PublicKey() ssh.PublicKey {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shown = true
	return o.AlgorithmSigner.PublicKey()
}

// offer are the keys for one host, in their order.
type offer struct {
	keys   []*offeredKey
	notes  []string // on keys that are not offered
	locked string   // a locked key that nobody can be asked about
}

func (o *offer) signers() []ssh.Signer {
	signers := make([]ssh.Signer, len(o.keys))
	for i, key := range o.keys {
		signers[i] = key
	}
	return signers
}

// tried says which keys the server has seen.
func (o *offer) tried() (words []string) {
	for _, key := range o.keys {
		key.mu.Lock()
		if key.shown {
			words = append(words, fmt.Sprintf("%s %s", key.source, fingerprint(key.AlgorithmSigner.PublicKey())))
		}
		key.mu.Unlock()
	}
	return words
}

func (o *offer) add(signer ssh.AlgorithmSigner, source string) {
	for _, key := range o.keys {
		if sameKey(key.AlgorithmSigner.PublicKey(), signer.PublicKey()) {
			return
		}
	}
	o.keys = append(o.keys, &offeredKey{AlgorithmSigner: signer, source: printable.Text(source)})
}

// offer chooses as ssh does: the agent's keys that the configuration names, the
// agent's others unless IdentitiesOnly, then files; certificates before their keys.
func (k *keyring) offer(s *settings, clock *clock) (*offer, error) {
	o := &offer{}
	held, err := k.agentKeys(s.agent)
	if err != nil {
		o.notes = append(o.notes, fmt.Sprintf("the agent at %s: %v", s.agent, err))
	}
	var files []*keyFile
	for _, path := range s.identities {
		files = append(files, k.file(path))
	}
	certificates := readCertificates(s)
	inAgent := func(public ssh.PublicKey) *agentKey {
		for _, key := range held {
			if public != nil && sameKey(key.PublicKey(), public) {
				return key
			}
		}
		return nil
	}
	for _, cert := range certificates {
		if key := inAgent(cert.Key); key != nil {
			o.certified(cert, key, key.comment)
			continue
		}
		for _, file := range files {
			if signer := k.signer(file, o, clock); signer != nil && sameKey(signer.PublicKey(), cert.Key) {
				o.certified(cert, signer, file.path)
				break
			}
		}
	}
	for _, file := range files {
		if key := inAgent(file.public()); key != nil {
			o.add(key, key.comment)
		}
	}
	for _, key := range held {
		if !s.identitiesOnly {
			o.add(key, key.comment)
		}
	}
	for _, file := range files {
		if inAgent(file.public()) == nil {
			if signer := k.signer(file, o, clock); signer != nil {
				o.add(signer, file.path)
			}
		}
		if file.err != nil {
			o.note(fmt.Sprintf("%s: %v", file.path, file.err))
		}
	}
	return o, nil
}

// note keeps a remark once.
func (o *offer) note(text string) {
	if text = printable.Text(text); !slices.Contains(o.notes, text) {
		o.notes = append(o.notes, text)
	}
}

// certified offers a certificate with the key that it is for.
func (o *offer) certified(cert *ssh.Certificate, key ssh.Signer, source string) {
	signer, err := ssh.NewCertSigner(cert, key)
	if err != nil {
		o.note(fmt.Sprintf("the certificate of %s: %v", source, err))
		return
	}
	if withAlgorithms, ok := signer.(ssh.AlgorithmSigner); ok {
		o.add(withAlgorithms, source+" with its certificate")
	}
}

// readCertificates reads the certificates that are named, and those beside keys.
func readCertificates(s *settings) (certificates []*ssh.Certificate) {
	paths := slices.Clone(s.certificates)
	for _, path := range s.identities {
		paths = append(paths, path+"-cert.pub")
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if public, _, _, _, err := ssh.ParseAuthorizedKey(text); err == nil {
			if cert, ok := public.(*ssh.Certificate); ok && cert.CertType == ssh.UserCert {
				certificates = append(certificates, cert)
			}
		}
	}
	return certificates
}

// agentKey is a key that an agent holds.
type agentKey struct {
	ssh.AlgorithmSigner
	comment string
}

// agentKeys lists what an agent holds.
func (k *keyring) agentKeys(socket string) ([]*agentKey, error) {
	if socket == "" {
		return nil, nil
	}
	link, err := k.agentLink(socket)
	if err != nil {
		return nil, err
	}
	listed, err := link.client.List()
	if err != nil {
		return nil, err
	}
	signers, err := link.client.Signers()
	if err != nil {
		return nil, err
	}
	var keys []*agentKey
	for _, signer := range signers {
		comment := "a key"
		for _, one := range listed {
			if sameKey(one, signer.PublicKey()) && one.Comment != "" {
				comment = one.Comment
			}
		}
		if signer, ok := signer.(ssh.AlgorithmSigner); ok {
			keys = append(keys, &agentKey{signer, comment + " (agent)"})
		}
	}
	return keys, nil
}

func (k *keyring) agentLink(socket string) (*agentLink, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if link := k.agents[socket]; link != nil {
		return link, nil
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, err
	}
	if k.agents == nil {
		k.agents = map[string]*agentLink{}
	}
	k.agents[socket] = &agentLink{conn, agent.NewClient(conn)}
	return k.agents[socket], nil
}

// file reads an identity, once.
func (k *keyring) file(path string) *keyFile {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.files == nil {
		k.files = map[string]*keyFile{}
	}
	if k.files[path] == nil {
		k.files[path] = readKey(path)
	}
	return k.files[path]
}

// readKey reads a private key, or the public one in its place or beside it.
func readKey(path string) *keyFile {
	f := &keyFile{path: path}
	text, err := os.ReadFile(path)
	if public, _, _, _, err := ssh.ParseAuthorizedKey(text); err == nil {
		f.known = public
		return f
	}
	f.known = readPublic(path + ".pub")
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			f.err = errors.Unwrap(err)
		}
		return f
	}
	var locked *ssh.PassphraseMissingError
	signer, err := ssh.ParsePrivateKey(text)
	switch {
	case errors.As(err, &locked):
		f.locked, f.text = true, text
		if locked.PublicKey != nil {
			f.known = locked.PublicKey
		}
	case err != nil && f.known != nil && strings.HasPrefix(f.known.Type(), "sk-"):
		f.err = errors.New("a key of a security token works through the agent alone: ssh-add it")
	case err != nil:
		f.err = errors.New(strings.TrimPrefix(err.Error(), "ssh: "))
	default:
		f.signer, f.err = able(signer)
		f.known = signer.PublicKey()
	}
	return f
}

// able is a signer that can be told by which algorithm to sign.
func able(signer ssh.Signer) (ssh.AlgorithmSigner, error) {
	if signer, ok := signer.(ssh.AlgorithmSigner); ok {
		return signer, nil
	}
	return nil, fmt.Errorf("keys of type %s are not supported", signer.PublicKey().Type())
}

func readPublic(path string) ssh.PublicKey {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil
	}
	return public
}

// signer is the key of a file, which may ask for its passphrase when it is used; nil
// if there is none.
func (k *keyring) signer(f *keyFile, o *offer, clock *clock) ssh.AlgorithmSigner {
	if !f.locked {
		return f.signer
	}
	if k.ask == nil {
		o.locked = f.path
		o.note(fmt.Sprintf("%s needs a passphrase, and there is no terminal to ask for it", f.path))
		return nil
	}
	if f.public() == nil { // an old form that hides even the public half
		if err := k.open(f, clock); err != nil {
			o.note(err.Error())
			return nil
		}
	}
	return &lockedSigner{keyring: k, file: f, clock: clock}
}

// lockedSigner is a key whose passphrase is asked for once a server would take it.
type lockedSigner struct {
	keyring *keyring
	file    *keyFile
	clock   *clock
}

// PublicKey is known without the passphrase.
func (l *lockedSigner) PublicKey() ssh.PublicKey { return l.file.public() }

// Sign signs by the key's usual algorithm.
func (l *lockedSigner) Sign(random io.Reader, data []byte) (*ssh.Signature, error) {
	return l.SignWithAlgorithm(random, data, "")
}

// SignWithAlgorithm asks for the passphrase, if nobody has yet, and signs.
func (l *lockedSigner) SignWithAlgorithm(random io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if err := l.keyring.open(l.file, l.clock); err != nil {
		return nil, err
	}
	return l.file.opened.SignWithAlgorithm(random, data, algorithm)
}

// passphraseTries is how often one may mistype, as with ssh.
const passphraseTries = 3

// open unlocks a key; hosts that need the same key wait for the one answer, and no
// limit runs meanwhile.
func (k *keyring) open(f *keyFile, clock *clock) error {
	defer clock.hold()()
	f.unlock.Do(func() {
		k.asking.Lock()
		defer k.asking.Unlock()
		prompt := fmt.Sprintf("Enter passphrase for key '%s': ", printable.Text(f.path))
		for range passphraseTries {
			secret, err := k.ask(prompt)
			if err != nil {
				f.failed = &askError{f.path, err}
				return
			}
			signer, err := ssh.ParsePrivateKeyWithPassphrase(f.text, []byte(secret))
			if err == nil {
				f.opened, f.failed = able(signer)
				f.setPublic(signer.PublicKey())
				return
			}
			f.failed = &askError{f.path, errors.New("wrong passphrase")}
		}
	})
	return f.failed
}
