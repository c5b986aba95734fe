package remotetest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// LayerSSHD is OpenSSH's server and its programs.
const LayerSSHD testneeds.Layer = "sshd"

// Server is a real sshd on a loopback port: one process per connection, as by inetd, so that the test itself listens at
// the port.
type Server struct {
	Dir        string // files of the server and of the user who logs in
	Port       int
	User       string // the user of the test
	HostKey    string // path of the private key; .pub is beside it
	ClientKey  string // path of an authorized private key
	Authorized string // its authorized_keys
	Known      string // a known_hosts file with this server

	// Drop is the number of connections to close at once, as MaxStartups does.
	Drop atomic.Int32
	// Connections counts the accepted connections.
	Connections atomic.Int32

	t       testing.TB
	sshd    string
	config  string
	serving sync.WaitGroup
	mu      sync.Mutex
	log     bytes.Buffer
}

// NewServer serves until the test ends. more are lines of sshd_config.
func NewServer(t testing.TB, more ...string) *Server {
	t.Helper()
	me, err := user.Current()
	require.NoError(t, err)
	s := &Server{Dir: t.TempDir(), User: me.Username, t: t, sshd: findSSHD(t)}
	s.HostKey = Keygen(t, filepath.Join(s.Dir, "host_key"), "ed25519", "")
	s.ClientKey = Keygen(t, filepath.Join(s.Dir, "client_key"), "ed25519", "")
	s.Authorized = filepath.Join(s.Dir, "authorized_keys")
	s.Authorize(s.ClientKey)
	s.config = filepath.Join(s.Dir, "sshd_config")
	lines := append(more, "HostKey "+s.HostKey, "AuthorizedKeysFile "+s.Authorized, "StrictModes no", "UsePAM no",
		"PidFile none",
		"PasswordAuthentication no", "KbdInteractiveAuthentication no", "MaxSessions 64", "LogLevel VERBOSE", "PrintMotd no")
	require.NoError(t, os.WriteFile(s.config, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.Port = listener.Addr().(*net.TCPAddr).Port
	s.Known = filepath.Join(s.Dir, "known_hosts")
	require.NoError(t, os.WriteFile(s.Known, []byte(s.KnownLine()+"\n"), 0o600))
	s.serving.Go(func() { s.accept(listener) })
	t.Cleanup(func() {
		_ = listener.Close()
		s.serving.Wait()
		if t.Failed() {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Logf("sshd: %s", s.log.String())
		}
	})
	return s
}

// findSSHD finds the server, which may be outside PATH.
func findSSHD(t testing.TB) string {
	t.Helper()
	testneeds.Program(t, LayerSSHD, "ssh-keygen")
	for _, path := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"} {
		if _, err := os.Stat(path); err == nil {
			if os.Getuid() == 0 { // for privilege separation; normally made at boot
				require.NoError(t, os.MkdirAll("/run/sshd", 0o755))
			}
			return path
		}
	}
	testneeds.Skip(t, LayerSSHD, "no sshd is installed; .ci/setup installs openssh-server as root on Debian")
	return ""
}

// accept serves connections until the listener is closed.
func (s *Server) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		s.Connections.Add(1)
		if s.Drop.Add(-1) >= 0 {
			_ = conn.Close()
			continue
		}
		file, err := conn.(*net.TCPConn).File()
		_ = conn.Close()
		if err == nil {
			s.serving.Go(func() { s.serve(file) })
		}
	}
}

// serve runs sshd for one connection.
func (s *Server) serve(conn *os.File) {
	command := exec.Command(s.sshd, "-i", "-e", "-f", s.config)
	command.Stdin, command.Stdout, command.Stderr = conn, conn, logWriter{s}
	command.WaitDelay = time.Second
	err := command.Run()
	_ = conn.Close()
	fmt.Fprintf(logWriter{s}, "sshd ended: %v\n", err)
}

type logWriter struct{ s *Server }

func (w logWriter) Write(b []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.log.Write(b)
}

// Log returns the server's log so far.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// Keygen makes a key pair. One round derives its cipher from the passphrase: each takes a tenth of a second with the
// race detector.
func Keygen(t testing.TB, path, kind, passphrase string, more ...string) string {
	t.Helper()
	Run(t, "ssh-keygen", append([]string{"-qa1", "-t", kind, "-N", passphrase, "-C", filepath.Base(path), "-f", path},
		more...)...)
	return path
}

// Run runs a program that must succeed, and returns its output.
func Run(t testing.TB, name string, arguments ...string) string {
	t.Helper()
	out, err := exec.Command(name, arguments...).CombinedOutput()
	require.NoError(t, err, "%s %q: %s", name, arguments, out)
	return string(out)
}

// Authorize authorizes a key, with options of authorized_keys.
func (s *Server) Authorize(key string, options ...string) {
	s.t.Helper()
	public, err := os.ReadFile(key + ".pub")
	require.NoError(s.t, err)
	file, err := os.OpenFile(s.Authorized, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(s.t, err)
	_, err = fmt.Fprintf(file, "%s%s", strings.Join(append(options, ""), " "), public)
	require.NoError(s.t, err)
	require.NoError(s.t, file.Close())
}

// KnownName returns the server's name in known_hosts files.
func (s *Server) KnownName() string { return fmt.Sprintf("[127.0.0.1]:%d", s.Port) }

// KnownLine returns its entry there.
func (s *Server) KnownLine() string { return s.KnownName() + " " + PublicKey(s.t, s.HostKey) }

// PublicKey returns the public half of a key: type and base64.
func PublicKey(t testing.TB, key string) string {
	t.Helper()
	public, err := os.ReadFile(key + ".pub")
	require.NoError(t, err)
	return strings.Join(strings.Fields(string(public))[:2], " ")
}

// Config writes an ssh_config for the host "node", which is the server. Lines in more come first and override others.
func (s *Server) Config(more ...string) string {
	s.t.Helper()
	lines := append(more, "Host node", "HostName 127.0.0.1", "Port "+strconv.Itoa(s.Port), "User "+s.User,
		"IdentityFile "+s.ClientKey, "IdentitiesOnly yes", "UserKnownHostsFile "+s.Known, "GlobalKnownHostsFile /dev/null")
	path := filepath.Join(s.t.TempDir(), "ssh_config")
	require.NoError(s.t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return path
}
