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

// Option changes how [Join] joins.
type Option func(*settings)

type settings struct {
	rank, size int // size 0: from the environment
	store      string
	name       string
	timeout    time.Duration
	backend    string
	key        []byte
	host       string
}

// DefaultTimeout is how long a rank is waited for within one call, and for all to come to [Join], unless WithTimeout
// says otherwise.
const DefaultTimeout = 5 * time.Minute

// WithRank says who this process is instead of the environment; WithStore must then say where the ranks meet, unless
// size is 1.
func WithRank(rank, size int) Option {
	return func(s *settings) { s.rank, s.size = rank, size }
}

// WithStore names the store in which the ranks meet, "host:port". If nobody serves it, rank 0 does.
func WithStore(address string) Option { return func(s *settings) { s.store = address } }

// WithName keeps groups apart that are joined at the same time. Ranks join groups of the same name, or of none, in the
// order in which they call Join.
func WithName(name string) Option { return func(s *settings) { s.name = name } }

// WithTimeout is the group's CommTimeout: how long a call waits for another rank before it fails and names it. 0 waits
// for ever.
func WithTimeout(limit time.Duration) Option { return func(s *settings) { s.timeout = limit } }

// WithBackend chooses what runs the calls: "cpu", "nccl" (which RCCL is, too), or "auto", the default: nccl where every
// rank has a GPU of its own and the libraries are there, cpu otherwise.
func WithBackend(name string) Option { return func(s *settings) { s.backend = name } }

// joined counts the groups that this process joined, by name and rank: all ranks join those of one name, or of none, in
// the same order, and a store remembers the earlier ones.
var joined struct {
	sync.Mutex
	count map[string]int
}

// groupNumber tells the groups of one name apart.
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

// WithKey gives the key that ranks on different hosts prove to each other that they have before they exchange anything
// else: at least 32 random bytes, the same on every rank. Ranks that gorun starts on several hosts have one without it.
// Without any a group over several hosts is refused; on one host none is needed. The proof is HMAC-SHA256 over fresh
// random numbers of both sides; what is exchanged later is not encrypted.
func WithKey(key []byte) Option { return func(s *settings) { s.key = key } }

// Join makes this process a member of the group of all ranks of its job. Every rank calls it; it returns when all have
// come, and fails when ctx ends or some have not come within the timeout.
//
// Who and how many the ranks are says the environment ([env.Self]); a process that no launcher started is a group of
// one. They meet in the store that the launcher serves (gorun, torchrun), or at MASTER_ADDR and MASTER_PORT, where rank
// 0 then serves it; ranks that mpirun or srun started on one host need neither, also where a wrapper script stands
// between. WORLD_SIZE above 1 without RANK, and one of MASTER_ADDR and MASTER_PORT without the other where no launcher
// is known, are errors.
//
// A program that may use one CPU has GOMAXPROCS raised to 2, unless the environment sets it: calls then run beside Go
// code, not in its way.
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

// within limits the time in which ranks may come; 0 is no limit.
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

// spareThread lets Go run a second thread where it counted one CPU, unless the user chose the number. With one, the
// runtime takes the right to run Go code away from every C call that lasts more than 20 µs, wakes a thread for it and
// looks again 20 µs later (retake in Go's proc.go): on the CPU on which the call works. With a second one idle it
// leaves the call alone; and work that was begun is not late when the goroutine goes on computing.
func spareThread() {
	if inherited(env.VarGoMaxProcs) == "" && runtime.GOMAXPROCS(0) == 1 {
		runtime.GOMAXPROCS(2)
	}
}

// wireKey is the key for connections between hosts: that of an option, else the one that the launcher gave the ranks of
// this job.
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

// longestKey is how many bytes a file with a key may have.
const longestKey = 4096

// readKey reads a key that no other user can read or could have written, but root.
func readKey(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO has nothing to say
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
		return nil, fmt.Errorf("%s is no regular file", path)
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

// self is who the process is, by option or environment.
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

// inherited is the value of a variable, "" where it is not set.
func inherited(name string) string {
	for _, entry := range env.Inherited() {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value
		}
	}
	return ""
}

// lacking says which half of the store's address the environment lacks, "" where it has both or none.
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

// monitored is a barrier that names who is late.
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
