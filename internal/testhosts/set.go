package testhosts

import (
	"encoding/json"
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

// Head is the name of the host where a launcher runs.
const Head = "head"

// Config says what hosts to make. The zero value of all but Hosts is a good start.
type Config struct {
	Hosts       int  // h1 to hN, 1 to 1000; the head comes on top
	PrivateTmp  bool // an empty /tmp on each host, apart from what Keep names
	PrivateHome bool // an empty home of root on each host, apart from what Keep names
	NoNames     bool // leave the hosts' names out of /etc/hosts: only ssh_config knows them
	// folders that stay visible in a private /tmp or home; the current folder and the running program's always do
	Keep []string
	SSHD []string // options of every sshd, as sshd_config spells them: "Banner /path", "MaxStartups 1"
	// stay until Down, even when this process has ended; else hosts go with the process that made them
	Detached bool
}

// Set is a number of hosts on one network. Its methods may be called concurrently, for different hosts.
type Set struct {
	config Config
	dir    string
	links  *space // the namespace that holds the bridges
	names  []string
	hosts  map[string]*host

	mu sync.Mutex // guards the files that describe all hosts
}

// host is one of a set.
type host struct {
	name    string
	address string
	cable   string // the end of its eth0 that the bridge has
	port    int    // of its sshd
	extra   int    // how many interfaces were added
	slow    bool
	relay   *relay // what makes it slow, if this process does

	*space
}

// Up makes hosts and takes them down when the test ends. It skips the test where the machine cannot.
func Up(t testing.TB, config Config) *Set {
	t.Helper()
	testneeds.Hosts(t)
	set, err := Start(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Down()) })
	return set
}

// Start is Up where there is no test, as in TestMain (after testneeds.FindHosts) or a program. The caller has to call
// Down.
func Start(config Config) (*Set, error) {
	if config.Hosts < 1 || config.Hosts > 1000 {
		return nil, fmt.Errorf("make %d hosts: the number must be 1 to 1000", config.Hosts)
	}
	dir, err := os.MkdirTemp("", Prefix)
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

// newHost describes the host with number i; 0 is the head.
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
	detached := "0"
	if s.config.Detached {
		detached = "1"
	}
	if s.links, err = startSpace(headNamespaces&^(mountNamespace|utsNamespace|ipcNamespace), s.config.Detached,
		s.path("links.log"), switchScript, detached); err != nil {
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
	if err := s.each(func(h *host) error { return s.startSSHD(h) }); err != nil {
		return err
	}
	return s.save()
}

// each does something for all hosts at once.
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
		digit(s.config.Detached),
	}
	h.space, err = startSpace(flags, s.config.Detached, s.own(h.name, "init.log"), hostScript,
		append(args, s.kept()...)...)
	return err
}

// kept lists the folders that stay visible everywhere.
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

// repositoryAround is the nearest folder at or above one that holds go.mod, or the folder itself.
func repositoryAround(folder string) string {
	for dir := folder; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	return folder
}

// digit is how scripts are told yes and no.
func digit(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}

// Down kills, by its id, every process of the hosts and removes what they had. It may be called again.
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

// spaces lists what was started.
func (s *Set) spaces() []*space {
	var all []*space
	for _, h := range s.all() {
		all = append(all, h.space)
	}
	return slices.DeleteFunc(append(all, s.links), func(one *space) bool { return one == nil })
}

// all lists the hosts, the head first.
func (s *Set) all() []*host {
	all := make([]*host, len(s.names))
	for i, name := range s.names {
		all[i] = s.hosts[name]
	}
	return all
}

// host finds one by its name.
func (s *Set) host(name string) (*host, error) {
	if h := s.hosts[name]; h != nil {
		return h, nil
	}
	return nil, fmt.Errorf("no host %q: there are %s", name, strings.Join(s.names, ", "))
}

// Hosts lists the names h1 to hN.
func (s *Set) Hosts() []string { return slices.Clone(s.names[1:]) }

// Detached reports whether the set was made to outlive the process that made it.
func (s *Set) Detached() bool { return s.config.Detached }

// Alive reports whether a host is there and has not crashed.
func (s *Set) Alive(host string) bool { return s.hosts[host] != nil && s.hosts[host].alive() }

// Address is the IPv4 address of a host's eth0. It panics where there is no such host.
func (s *Set) Address(host string) string {
	h, err := s.host(host)
	if err != nil {
		panic(err)
	}
	return h.address
}

// state is what a set looks like in the file that Load reads.
type state struct {
	Config Config
	Links  process
	Hosts  []process // in the order of names
}

// process is the first one of a space, and what else a host remembers.
type process struct {
	PID     int
	Started string
	Port    int
	Extra   int
	Slow    bool
}

// save writes the file that Load reads.
func (s *Set) save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := state{Config: s.config, Links: process{PID: s.links.pid, Started: s.links.started}}
	for _, h := range s.all() {
		now.Hosts = append(now.Hosts, process{PID: h.pid, Started: h.started, Port: h.port, Extra: h.extra, Slow: h.slow})
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return os.WriteFile(s.path(StateFile), text, 0o600)
}

const (
	// Prefix begins the name of every state folder, in the folder for temporary files; StateFile is what Load reads there.
	Prefix    = "testhosts-"
	StateFile = "state.json"
)

// Load returns the set whose state folder dir is, as another process made it.
func Load(dir string) (*Set, error) {
	text, err := os.ReadFile(filepath.Join(dir, StateFile))
	if err != nil {
		return nil, err
	}
	var was state
	if err := json.Unmarshal(text, &was); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, StateFile), err)
	}
	s := &Set{config: was.Config, dir: dir, hosts: map[string]*host{}}
	if s.links, err = was.Links.open(); err != nil {
		return nil, fmt.Errorf("%s: the hosts are gone: %w", dir, err)
	}
	for i, p := range was.Hosts {
		h := newHost(i)
		h.port, h.extra, h.slow = p.Port, p.Extra, p.Slow
		if h.space, err = p.open(); err != nil { // crashed
			h.space = &space{pid: p.PID, started: p.Started}
		}
		s.names, s.hosts[h.name] = append(s.names, h.name), h
	}
	return s, nil
}

// open finds the space whose first process this is.
func (p process) open() (*space, error) {
	one := &space{pid: p.PID}
	if err := one.identify(); err != nil {
		return nil, err
	}
	if one.started != p.Started {
		return nil, fmt.Errorf("process %d is another one now", p.PID)
	}
	return one, nil
}
