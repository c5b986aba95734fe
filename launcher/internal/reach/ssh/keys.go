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
	"sync/atomic"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"gorun/internal/printable"
)

// keyring holds the user's keys, each read and unlocked once for all hosts.
type keyring struct {
	prompt    func(prompt string) (string, error)
	prompting sync.Mutex // one prompt at a time

	mu     sync.Mutex
	files  map[string]*keyFile
	agents map[string]*agentConn
}

// keyFile is the content of an identity file. A file with only a public key selects a private key in the agent.
type keyFile struct {
	path   string
	signer ssh.AlgorithmSigner // nil without an unlocked private key
	text   []byte              // of a locked key
	locked bool
	err    error // why the file cannot be used, nil if it does not exist

	mu        sync.Mutex
	publicKey ssh.PublicKey // nil if unknown, as of a locked key in an old format

	unlock    sync.Once
	unlocked  ssh.AlgorithmSigner
	unlockErr error
}

func (f *keyFile) public() ssh.PublicKey {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.publicKey
}

func (f *keyFile) setPublic(public ssh.PublicKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.publicKey = public
}

// agentConn is a connection to an agent.
type agentConn struct {
	conn   net.Conn
	client agent.ExtendedAgent
}

// passphraseError reports a key that was not unlocked.
type passphraseError struct {
	path  string
	cause error
}

func (e *passphraseError) Error() string {
	return fmt.Sprintf("key %s is locked: %v", e.path, e.cause)
}
func (e *passphraseError) Unwrap() error { return e.cause }

func (k *keyring) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range k.agents {
		_ = a.conn.Close()
	}
	clear(k.agents)
}

// offeredKey is a key that may be offered to a server.
type offeredKey struct {
	ssh.AlgorithmSigner
	source  string // the file, or the agent's comment
	offered atomic.Bool
}

// PublicKey is called when the key is offered.
func (o *offeredKey) PublicKey() ssh.PublicKey {
	o.offered.Store(true)
	return o.AlgorithmSigner.PublicKey()
}

// offer is the list of the keys for one host, in order.
type offer struct {
	keys   []*offeredKey
	notes  []string // on keys that cannot be offered
	locked string   // a locked key, without a terminal to ask for the passphrase
}

func (o *offer) signers() []ssh.Signer {
	signers := make([]ssh.Signer, len(o.keys))
	for i, key := range o.keys {
		signers[i] = key
	}
	return signers
}

// tried lists the keys that the server has seen.
func (o *offer) tried() (list []string) {
	for _, key := range o.keys {
		if key.offered.Load() {
			list = append(list, fmt.Sprintf("%s %s", key.source, fingerprint(key.AlgorithmSigner.PublicKey())))
		}
	}
	return list
}

func (o *offer) add(signer ssh.AlgorithmSigner, source string) {
	for _, key := range o.keys {
		if sameKey(key.AlgorithmSigner.PublicKey(), signer.PublicKey()) {
			return
		}
	}
	o.keys = append(o.keys, &offeredKey{AlgorithmSigner: signer, source: printable.Text(source)})
}

// addCertificate adds a certificate with its key.
func (o *offer) addCertificate(cert *ssh.Certificate, key ssh.Signer, source string) {
	signer, err := ssh.NewCertSigner(cert, key)
	if err != nil {
		o.note(fmt.Sprintf("the certificate of %s: %v", source, err))
		return
	}
	if signer, ok := signer.(ssh.AlgorithmSigner); ok {
		o.add(signer, source+" with its certificate")
	}
}

// note adds a note once.
func (o *offer) note(text string) {
	if text = printable.Text(text); !slices.Contains(o.notes, text) {
		o.notes = append(o.notes, text)
	}
}

// offer selects keys in the order of OpenSSH: the agent's keys that the configuration names, its others unless
// IdentitiesOnly is set, then files; certificates before their keys.
func (k *keyring) offer(s *settings, b *budget) *offer {
	o := &offer{}
	held, err := k.agentKeys(s.agent)
	if err != nil {
		o.notes = append(o.notes, fmt.Sprintf("the agent at %s: %v", s.agent, err))
	}
	var files []*keyFile
	for _, path := range s.identities {
		files = append(files, k.file(path))
	}
	inAgent := func(public ssh.PublicKey) *agentKey {
		i := slices.IndexFunc(held, func(key *agentKey) bool { return public != nil && sameKey(key.PublicKey(), public) })
		if i < 0 {
			return nil
		}
		return held[i]
	}
	for _, cert := range readCertificates(s) {
		if key := inAgent(cert.Key); key != nil {
			o.addCertificate(cert, key, key.comment)
			continue
		}
		for _, file := range files {
			if signer := k.signer(file, o, b); signer != nil && sameKey(signer.PublicKey(), cert.Key) {
				o.addCertificate(cert, signer, file.path)
				break
			}
		}
	}
	for _, file := range files {
		if key := inAgent(file.public()); key != nil {
			o.add(key, key.comment)
		}
	}
	if !s.identitiesOnly {
		for _, key := range held {
			o.add(key, key.comment)
		}
	}
	for _, file := range files {
		if inAgent(file.public()) == nil {
			if signer := k.signer(file, o, b); signer != nil {
				o.add(signer, file.path)
			}
		}
		if file.err != nil {
			o.note(fmt.Sprintf("%s: %v", file.path, file.err))
		}
	}
	return o
}

// readCertificates reads the configured certificates, and those beside keys.
func readCertificates(s *settings) (certificates []*ssh.Certificate) {
	paths := slices.Clone(s.certificates)
	for _, path := range s.identities {
		paths = append(paths, path+"-cert.pub")
	}
	for _, path := range paths {
		if cert, ok := readPublic(path).(*ssh.Certificate); ok && cert.CertType == ssh.UserCert {
			certificates = append(certificates, cert)
		}
	}
	return certificates
}

// agentKey is a key in an agent.
type agentKey struct {
	ssh.AlgorithmSigner
	comment string
}

// agentKeys lists the keys in an agent.
func (k *keyring) agentKeys(socket string) ([]*agentKey, error) {
	if socket == "" {
		return nil, nil
	}
	a, err := k.agent(socket)
	if err != nil {
		return nil, err
	}
	listed, err := a.client.List()
	if err != nil { // another agent may be there by now
		k.forget(socket, a)
		if a, err = k.agent(socket); err == nil {
			listed, err = a.client.List()
		}
	}
	if err != nil {
		return nil, err
	}
	signers, err := a.client.Signers()
	if err != nil {
		return nil, err
	}
	var keys []*agentKey
	for _, signer := range signers {
		comment := "a key"
		for _, key := range listed {
			if sameKey(key, signer.PublicKey()) && key.Comment != "" {
				comment = key.Comment
			}
		}
		if signer, ok := signer.(ssh.AlgorithmSigner); ok {
			keys = append(keys, &agentKey{signer, comment + " (agent)"})
		}
	}
	return keys, nil
}

// agent returns the connection to an agent.
func (k *keyring) agent(socket string) (*agentConn, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a := k.agents[socket]; a != nil {
		return a, nil
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err
		}
		return nil, err
	}
	k.agents[socket] = &agentConn{conn, agent.NewClient(conn)}
	return k.agents[socket], nil
}

// forget closes the connection to an agent that does not answer.
func (k *keyring) forget(socket string, a *agentConn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.agents[socket] == a {
		delete(k.agents, socket)
	}
	_ = a.conn.Close()
}

// file reads an identity file once.
func (k *keyring) file(path string) *keyFile {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.files[path] == nil {
		k.files[path] = readKey(path)
	}
	return k.files[path]
}

// readKey reads a private key, or the public one in its place or beside it.
func readKey(path string) *keyFile {
	f := &keyFile{path: path}
	if f.publicKey = readPublic(path); f.publicKey != nil {
		return f
	}
	f.publicKey = readPublic(path + ".pub")
	text, err := os.ReadFile(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			f.err = errors.Unwrap(err)
		}
		return f
	}
	signer, err := ssh.ParsePrivateKey(text)
	locked, isLocked := errors.AsType[*ssh.PassphraseMissingError](err)
	switch {
	case isLocked:
		f.locked, f.text = true, text
		if locked.PublicKey != nil {
			f.publicKey = locked.PublicKey
		}
	case err != nil && f.publicKey != nil && strings.HasPrefix(f.publicKey.Type(), "sk-"):
		f.err = errors.New("a security token needs ssh-agent: run ssh-add")
	case err != nil:
		f.err = errors.New(strings.TrimPrefix(err.Error(), "ssh: "))
	default:
		f.signer, f.err = algorithmSigner(signer)
		f.publicKey = signer.PublicKey()
	}
	return f
}

func algorithmSigner(signer ssh.Signer) (ssh.AlgorithmSigner, error) {
	if signer, ok := signer.(ssh.AlgorithmSigner); ok {
		return signer, nil
	}
	return nil, fmt.Errorf("keys of type %s are not supported", signer.PublicKey().Type())
}

// readPublic reads a public key or certificate, nil if the file has none.
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

// signer returns the key of a file, which may prompt for its passphrase when it is used; nil without a usable one.
func (k *keyring) signer(f *keyFile, o *offer, b *budget) ssh.AlgorithmSigner {
	if !f.locked {
		return f.signer
	}
	if k.prompt == nil {
		o.locked = f.path
		o.note(fmt.Sprintf("%s needs a passphrase, and there is no terminal to ask for it", f.path))
		return nil
	}
	if f.public() == nil { // an old format, which encrypts even the public half
		if err := k.unlock(f, b); err != nil {
			o.note(err.Error())
			return nil
		}
	}
	return &lockedSigner{keyring: k, file: f, budget: b}
}

// lockedSigner is a key that prompts for its passphrase once a server accepts it.
type lockedSigner struct {
	keyring *keyring
	file    *keyFile
	budget  *budget
}

// PublicKey needs no passphrase.
func (l *lockedSigner) PublicKey() ssh.PublicKey { return l.file.public() }

// Sign signs with the key's default algorithm.
func (l *lockedSigner) Sign(random io.Reader, data []byte) (*ssh.Signature, error) {
	return l.SignWithAlgorithm(random, data, "")
}

// SignWithAlgorithm unlocks the key and signs.
func (l *lockedSigner) SignWithAlgorithm(random io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if err := l.keyring.unlock(l.file, l.budget); err != nil {
		return nil, err
	}
	return l.file.unlocked.SignWithAlgorithm(random, data, algorithm)
}

const passphraseTries = 3 // as ssh

// unlock prompts for the passphrase of a key. Hosts that need the same key share the answer, and no time passes for
// them
// meanwhile.
func (k *keyring) unlock(f *keyFile, b *budget) error {
	defer b.suspend()()
	f.unlock.Do(func() {
		k.prompting.Lock()
		defer k.prompting.Unlock()
		prompt := fmt.Sprintf("Enter passphrase for key '%s': ", printable.Text(f.path))
		for range passphraseTries {
			passphrase, err := k.prompt(prompt)
			if err != nil {
				f.unlockErr = &passphraseError{f.path, err}
				return
			}
			signer, err := ssh.ParsePrivateKeyWithPassphrase(f.text, []byte(passphrase))
			if err == nil {
				f.unlocked, f.unlockErr = algorithmSigner(signer)
				f.setPublic(signer.PublicKey())
				return
			}
			f.unlockErr = &passphraseError{f.path, errors.New("wrong passphrase")}
		}
	})
	return f.unlockErr
}
