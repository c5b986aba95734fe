package comm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gorun/comm/internal/backend"
	"gorun/comm/internal/cpu"
	"gorun/env"
)

// Option configures [Join].
type Option func(*settings)

type settings struct {
	rank, size int // if size is 0, Join reads both from the environment
	store      string
	name       string
	timeout    time.Duration
	backend    string
	key        []byte
	host       string
}

// DefaultTimeout limits each wait for another rank in a call, and the time in which all ranks must call [Join].
// [WithTimeout] changes it.
const DefaultTimeout = 5 * time.Minute

// WithRank sets the rank and the size of the group instead of reading them from the environment. If size is above 1,
// you also need WithStore.
func WithRank(rank, size int) Option {
	return func(s *settings) { s.rank, s.size = rank, size }
}

// WithStore sets the address of the store that the ranks meet at, "host:port". If no process serves it, rank 0 does.
func WithStore(address string) Option { return func(s *settings) { s.store = address } }

// WithName separates groups that are joined at the same time. Ranks must join groups of the same name, or without a
// name, in the same order.
func WithName(name string) Option { return func(s *settings) { s.name = name } }

// WithTimeout limits how long a call waits for another rank before it fails with an error that names the rank. 0 means
// no limit.
func WithTimeout(limit time.Duration) Option { return func(s *settings) { s.timeout = limit } }

// WithBackend selects the back end: "cpu", "nccl" or "auto", the default. "nccl" includes RCCL. "auto" selects nccl if
// every rank has a GPU of its own and the libraries are installed, otherwise cpu.
func WithBackend(name string) Option { return func(s *settings) { s.backend = name } }

// joined counts the groups that this process has joined, by name and rank. All ranks join the groups of one name in the
// same order. The number separates a group's keys in the store from those of earlier groups.
var joined struct {
	sync.Mutex
	count map[string]int
}

// groupNumber returns the number of a new group among those with this name.
func groupNumber(self env.Rank, name string) int {
	joined.Lock()
	defer joined.Unlock()
	if joined.count == nil {
		joined.count = map[string]int{}
	}
	who := fmt.Sprintf("rank %d of %d at %s: %s", self.Rank, self.WorldSize, self.Store, name)
	joined.count[who]++
	return joined.count[who]
}

// WithKey sets the key that ranks on different hosts authenticate each other with: at least 32 random bytes, the same
// on every rank. gorun provides a key if it starts ranks on several hosts. A group over several hosts without a key is
// an error; on one host you need none. The proof is HMAC-SHA256 over fresh random numbers of both sides. The data that
// follows is not encrypted.
func WithKey(key []byte) Option { return func(s *settings) { s.key = key } }

// Join makes this process a member of the group of all ranks of its job. Every rank must call it. Join blocks until all
// ranks have called it. It fails if ctx ends or some ranks do not call it within the timeout.
//
// Rank and world size come from the environment ([env.Self]). A process without a launcher is a group of one. The ranks
// meet at the store of the launcher (gorun, torchrun), or at MASTER_ADDR and MASTER_PORT, where rank 0 serves it. Ranks
// that mpirun or srun started on one host need neither variable, even if a wrapper script starts the program.
//
// Join returns an error if WORLD_SIZE is above 1 without RANK. Without a known launcher, it also returns an error if
// only one of MASTER_ADDR and MASTER_PORT is set.
//
// If the program can use only one CPU, Join raises GOMAXPROCS to 2 unless the environment sets it. Calls then do not
// block other Go code.
func Join(ctx context.Context, options ...Option) (*Group, error) {
	s := settings{timeout: DefaultTimeout, backend: "auto"}
	for _, option := range options {
		option(&s)
	}
	ctx, cancel := within(ctx, s.timeout)
	defer cancel()
	g, err := join(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("comm: %w", err)
	}
	return g, nil
}

// within limits the time in which all ranks must join. 0 means no limit.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("not all ranks came within %v", limit))
}

func join(ctx context.Context, s settings) (*Group, error) {
	self, err := s.self()
	if err != nil {
		return nil, err
	}
	key, err := s.wireKey()
	if err != nil {
		return nil, err
	}
	m, err := meet(ctx, self, s.name, groupNumber(self, s.name))
	if err != nil {
		return nil, err
	}
	g := &Group{
		rank: self.Rank, size: self.WorldSize, timeout: s.timeout, device: self.LocalRank, meeting: m, key: key,
		near: self.Store, host: s.host,
	}
	if g.back, err = open(ctx, s.backend, g, m.exchange); err != nil {
		return nil, errors.Join(err, m.close())
	}
	g.onCPUs, _ = any(g.back).(*cpu.Backend)
	if g.size > 1 {
		spareThread()
	}
	return g, nil
}

// spareThread lets Go run a second thread on a machine with one CPU, unless the user set GOMAXPROCS.
//
// With one, the runtime takes the processor away from every C call longer than 20 µs. It wakes a thread for it
// and polls again 20 µs later (retake in Go's proc.go), on the CPU that the call uses. With a second, idle
// one, the runtime does not disturb the call. Asynchronous calls then also make progress while the caller
// computes.
func spareThread() {
	if inherited(env.VarGoMaxProcs) == "" && runtime.GOMAXPROCS(0) == 1 {
		runtime.GOMAXPROCS(2)
	}
}

// wireKey returns the key for connections between hosts: from WithKey, otherwise from the launcher.
func (s *settings) wireKey() ([]byte, error) {
	file := inherited(env.VarJobKey)
	if s.key != nil || file == "" {
		return s.key, nil
	}
	key, err := readKey(file)
	if err != nil {
		return nil, fmt.Errorf("the job's key, which %s names: %w", env.VarJobKey, err)
	}
	return key, nil
}

// longestKey is the maximum size of a key file in bytes.
const longestKey = 4096

// readKey reads a key file. It rejects a file that users other than this one and root can read or could have written.
func readKey(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // do not block on a FIFO
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var info unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &info); err != nil {
		return nil, fmt.Errorf("fstat %s: %w", path, err)
	}
	mode := info.Mode &^ unix.S_IFMT
	switch {
	case info.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Uid != 0 && int(info.Uid) != os.Geteuid():
		return nil, fmt.Errorf("%s belongs to user %d, neither to this one (%d) nor to root",
			path, info.Uid, os.Geteuid())
	case mode&0o077 != 0:
		return nil, fmt.Errorf("%s has mode %#o: other users can read or change it\ntry: chmod go= %[1]s", path, mode)
	case info.Size > longestKey:
		return nil, fmt.Errorf("%s has %d bytes, a key at most %d", path, info.Size, longestKey)
	}
	return io.ReadAll(io.LimitReader(file, longestKey))
}

// self returns the rank from the options or the environment.
func (s *settings) self() (env.Rank, error) {
	self, err := env.Self()
	switch {
	case s.size > 0 && (s.rank < 0 || s.rank >= s.size):
		return self, fmt.Errorf("rank %d of %d: ranks are numbered from 0", s.rank, s.size)
	case s.size > 0:
		self = env.Rank{Rank: s.rank, WorldSize: s.size, LocalRank: -1}
	case errors.Is(err, env.ErrNotARank):
		self = env.Rank{WorldSize: 1}
	case err != nil:
		return self, err
	}
	if s.store != "" {
		self.Store, self.Launcher = s.store, ""
	}
	if lack := lacking(); lack != "" && self.Store == "" && self.WorldSize > 1 && self.Launcher == "" && s.size == 0 {
		return self, fmt.Errorf("%s: set both, or neither where all ranks are children of one process", lack)
	}
	return self, nil
}

// inherited returns a variable's value at the start of the process, or "" if it is not set.
func inherited(name string) string {
	for _, entry := range env.Inherited() {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value
		}
	}
	return ""
}

// lacking describes the missing half of the store address in the environment. It returns "" if both or none are set.
func lacking() string {
	host, port := inherited(env.VarMasterAddr), inherited(env.VarMasterPort)
	switch {
	case host != "" && port == "":
		return fmt.Sprintf("%s=%s is set, %s is not", env.VarMasterAddr, host, env.VarMasterPort)
	case host == "" && port != "":
		return fmt.Sprintf("%s=%s is set, %s is not", env.VarMasterPort, port, env.VarMasterAddr)
	}
	return ""
}

func (g *Group) monitored(ctx context.Context, limit time.Duration) error {
	if limit <= 0 {
		return wrong(backend.Barrier, "a monitored barrier needs a time limit above 0, not %v", limit)
	}
	g.wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usable(); err != nil {
		return err
	}
	return g.ended(g.back.MonitoredBarrier(ctx, limit))
}
