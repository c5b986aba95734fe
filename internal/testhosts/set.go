package testhosts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// Head is the name of the launcher's host.
const Head = "head"

// Config describes the hosts to make. Only Hosts is required.
type Config struct {
	Hosts       int  // 1 to 1000: h1 to hN, beside the head
	PrivateTmp  bool // an empty /tmp on each host, except for Keep
	PrivateHome bool // an empty home of root on each host, except for Keep
	NoNames     bool // leave the hosts' names out of /etc/hosts: only ssh_config knows them
	// Keep are folders that stay visible in a private /tmp or home, beside the current repository and the program's
	// folder.
	Keep []string
	SSHD []string // lines of sshd_config: "Banner /path", "MaxStartups 1"
}

// Set is a group of hosts on one network. Its methods may be called concurrently for different hosts.
type Set struct {
	config Config
	dir    string
	links  *space // the namespace of the bridges
	names  []string
	hosts  map[string]*host

	mu sync.Mutex // guards the files of the set
}

// host is one of a set.
type host struct {
	name    string
	address string
	cable   string // the bridge's end of its eth0
	port    int    // of its sshd
	extra   int    // number of added interfaces
	relay   *relay // set while the host is impaired

	*space
}

// Up makes hosts for a test, which end with it. It skips the test if the machine lacks what is needed.
func Up(t testing.TB, config Config) *Set {
	t.Helper()
	testneeds.Hosts(t)
	set, err := Start(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Down()) })
	return set
}

// Start makes hosts outside a test, such as in TestMain (after testneeds.FindHosts) or a program. The caller must call
// Down.
func Start(config Config) (*Set, error) {
	if config.Hosts < 1 || config.Hosts > 1000 {
		return nil, fmt.Errorf("make %d hosts: the number must be 1 to 1000", config.Hosts)
	}
	dir, err := os.MkdirTemp("", "testhosts-")
	if err != nil {
		return nil, err
	}
	s := &Set{config: config, dir: dir, hosts: map[string]*host{}}
	for i := range config.Hosts + 1 {
		h := newHost(i)
		s.names, s.hosts[h.name] = append(s.names, h.name), h
	}
	if err := s.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("make %d hosts: %w", config.Hosts, err), s.Down())
	}
	return s, nil
}

// newHost returns host number i; 0 is the head.
func newHost(i int) *host {
	if i == 0 {
		return &host{name: Head, address: "10.77.0.1", cable: "p0", port: 22}
	}
	address := fmt.Sprintf("10.77.%d.%d", 1+(i-1)/250, 1+(i-1)%250)
	return &host{name: "h" + strconv.Itoa(i), address: address, cable: "p" + strconv.Itoa(i), port: 22}
}

func (s *Set) start() (err error) {
	if err := s.each(s.writeHostFiles); err != nil {
		return err
	}
	if err := s.writeSetFiles(); err != nil {
		return err
	}
	if s.links, err = startSpace(headNamespaces&^(mountNamespace|utsNamespace|ipcNamespace),
		s.path("links.log"), switchScript); err != nil {
		return err
	}
	if err := s.links.ip("link set lo up\n" + bridgeLines(mainBridge)); err != nil {
		return err
	}
	if err := s.each(s.begin); err != nil {
		return err
	}
	if err := s.plug(s.all()...); err != nil {
		return err
	}
	return s.each(func(h *host) error { return s.startSSHD(h) })
}

// each calls do for all hosts concurrently.
func (s *Set) each(do func(*host) error) error {
	problems := make([]error, len(s.names))
	limit := make(chan struct{}, 16) // processes at a time
	var all sync.WaitGroup
	for i, name := range s.names {
		limit <- struct{}{}
		all.Go(func() {
			defer func() { <-limit }()
			if err := do(s.hosts[name]); err != nil {
				problems[i] = fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(problems...)
}

// begin starts a host's first process.
func (s *Set) begin(h *host) (err error) {
	flags := uintptr(hostNamespaces)
	if h.name == Head {
		flags = headNamespaces
	}
	args := []string{
		h.name, s.dir, digit(s.config.PrivateHome), digit(s.config.PrivateTmp), digit(!s.config.NoNames),
	}
	h.space, err = startSpace(flags, s.own(h.name, "init.log"), hostScript,
		append(args, s.kept()...)...)
	return err
}

// kept returns the folders that stay visible on all hosts.
func (s *Set) kept() []string {
	kept := slices.Clone(s.config.Keep)
	if here, err := os.Getwd(); err == nil {
		kept = append(kept, repositoryAround(here))
	}
	if program, err := os.Executable(); err == nil {
		kept = append(kept, filepath.Dir(program))
	}
	return kept
}

// repositoryAround returns the nearest folder at or above one with a go.mod, or the folder itself.
func repositoryAround(folder string) string {
	for dir := folder; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	return folder
}

// digit is a boolean for scripts.
func digit(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}

// Down kills all processes of the hosts and removes their files. It may be called again.
func (s *Set) Down() error {
	for _, h := range s.all() {
		if h.relay != nil {
			h.relay.close()
			h.relay = nil
		}
	}
	err := s.killAll()
	for _, space := range s.spaces() {
		space.close()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// spaces returns the spaces that were started.
func (s *Set) spaces() []*space {
	var all []*space
	for _, h := range s.all() {
		all = append(all, h.space)
	}
	return slices.DeleteFunc(append(all, s.links), func(one *space) bool { return one == nil })
}

// all returns the hosts, the head first.
func (s *Set) all() []*host {
	all := make([]*host, len(s.names))
	for i, name := range s.names {
		all[i] = s.hosts[name]
	}
	return all
}

// host returns a host by its name.
func (s *Set) host(name string) (*host, error) {
	if h := s.hosts[name]; h != nil {
		return h, nil
	}
	return nil, fmt.Errorf("no host %q: there are %s", name, strings.Join(s.names, ", "))
}

// Hosts returns the names h1 to hN.
func (s *Set) Hosts() []string { return slices.Clone(s.names[1:]) }

// PID returns the first process of a host, the ancestor of all others there. It panics if there is no such host.
func (s *Set) PID(host string) int { return s.hosts[host].pid }

// Alive reports whether a host exists and has not crashed.
func (s *Set) Alive(host string) bool { return s.hosts[host] != nil && s.hosts[host].alive() }

// Address returns the IPv4 address of a host's eth0. It panics if there is no such host.
func (s *Set) Address(host string) string {
	h, err := s.host(host)
	if err != nil {
		panic(err)
	}
	return h.address
}
