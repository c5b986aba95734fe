// Package forkserver keeps a Python interpreter that has imported modules, and forks ranks from it: they start within
// milliseconds, where imports take seconds.
//
// The server is a child of this process in a session of its own. It answers one request at a time, and ends with this
// process. Before the imports it has this process's limits and the job's environment; a rank gets its own environment,
// arguments, directory, streams, CPUs and memory policy after the fork.
package forkserver

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/process/child"
	"gorun/launcher/internal/spec"
)

//go:embed server.py
var source string

// bootstrap is the server's command line: it reads source from its standard input, which a rank does not keep.
const bootstrap = `exec(compile(open(0, closefd=False).read(), "<gorun>", "exec"))`

// patience is how long ranks wait for a server's imports, from its start, and for a fork. That copies the tables of the
// interpreter's memory and takes some milliseconds.
const patience = 10 * time.Second

// ErrUnable is returned for a rank that cannot be forked from the server: the imports failed or take long, or it has
// another interpreter, other options, or other variables that matter when modules are imported.
var ErrUnable = errors.New("the fork server cannot start this rank")

// Config configures a Server.
type Config struct {
	App     spec.App // whose interpreter it is
	Environ []string
	Imports []string  // names of modules
	Stderr  io.Writer // of the imports
}

// Server is a Python interpreter that forks ranks. Its methods are safe for concurrent use.
type Server struct {
	cfg      Config
	cmd      *child.Cmd
	socket   int
	since    time.Time
	imported chan struct{} // closed when failed has its value
	failed   error         // of the imports
	// running are the goroutines that wait for the process and its imports.
	running sync.WaitGroup

	mu     sync.Mutex // held during a request
	broken bool       // socket is closed
}

// Start starts a server, which then imports its modules. report is called once with the result.
func Start(cfg Config, report func(error)) (*Server, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start Python to import modules: %w", err)
	}
	theirs := os.NewFile(uintptr(ends[1]), "requests")
	defer theirs.Close()
	s := &Server{cfg: cfg, socket: ends[0], imported: make(chan struct{}), since: time.Now()}
	s.cmd = child.Command(cfg.App.Path)
	room := strings.Repeat(" ", len(strings.Join(cfg.App.Argv, " "))) // for a rank's command line
	s.cmd.Args = slices.Concat(cfg.App.Argv[:cfg.App.Python()],
		[]string{"-c", bootstrap + room, strconv.Itoa(os.Getpid())}, cfg.Imports)
	s.cmd.Env, s.cmd.Dir, s.cmd.Stderr = cfg.Environ, cfg.App.Dir, cfg.Stderr
	s.cmd.Stdin, s.cmd.ExtraFiles = strings.NewReader(source), []*os.File{theirs}
	s.cmd.WaitDelay = time.Second // a module may have started a process that keeps Stderr open
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	s.running.Go(func() {
		runtime.LockOSThread() // the end of the thread that started a process gives it Pdeathsig
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait()
		}
	})
	if err := <-started; err != nil {
		unix.Close(s.socket)
		return nil, fmt.Errorf("start Python to import modules: %w", err)
	}
	s.running.Go(func() {
		s.failed = s.awaitImports()
		close(s.imported)
		report(s.failed)
	})
	return s, nil
}

// awaitImports reads the server's first line: empty, or an error.
func (s *Server) awaitImports() error {
	var line []byte
	for p := [256]byte{}; len(line) == 0 || line[len(line)-1] != '\n'; {
		n, err := read(s.socket, p[:])
		if err != nil || n == 0 {
			return errors.New("import modules: Python ended")
		}
		line = append(line, p[:n]...)
	}
	if len(line) > 1 {
		return errors.New(strings.TrimSpace(string(line)))
	}
	limit := unix.NsecToTimeval(int64(patience))
	_ = unix.SetsockoptTimeval(s.socket, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit)
	return nil
}

// read is unix.Read, but goes on after a signal: with a timeout the kernel does not.
func read(socket int, p []byte) (n int, err error) {
	for {
		if n, err = unix.Read(socket, p); err != unix.EINTR {
			return n, err
		}
	}
}

// Fork forks a rank, see [process.Common].Fork. It waits for the imports unless hurry is closed.
func (s *Server) Fork(f process.Fork, hurry <-chan struct{}) (pid int, failed process.BindError, err error) {
	app := spec.App{Path: f.Path, Argv: f.Argv}
	at := app.Python()
	if at == 0 || f.Path != s.cfg.App.Path || at != s.cfg.App.Python() ||
		!slices.Equal(f.Argv[1:at], s.cfg.App.Argv[1:at]) ||
		!slices.Equal(forImports(f.Env), forImports(s.cfg.Environ)) {
		return 0, failed, ErrUnable
	}
	if !s.awaitReady(hurry) {
		return 0, failed, ErrUnable
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken || s.failed != nil {
		return 0, failed, ErrUnable
	}
	pid, failed, err = s.request(f, at)
	if err != nil {
		s.end()
	}
	return pid, failed, err
}

// awaitReady waits for the imports, as a rank that imported the modules itself would be later.
func (s *Server) awaitReady(hurry <-chan struct{}) bool {
	select {
	case <-s.imported:
	case <-hurry:
	case <-time.After(time.Until(s.since.Add(patience))):
	}
	select { // whatever woke it
	case <-s.imported:
		return true
	default:
		return false
	}
}

// request has the server fork a rank.
func (s *Server) request(f process.Fork, at int) (pid int, failed process.BindError, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, failed, err
	}
	defer unix.Close(ends[0]) // a rank that waits for the last byte ends
	limit := unix.NsecToTimeval(int64(patience))
	_ = unix.SetsockoptTimeval(ends[0], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
	err = s.send(body(&f, at), append(f.Files, ends[1]))
	unix.Close(ends[1])
	if err != nil {
		return 0, failed, err
	}
	var answer [64]byte
	n, err := read(ends[0], answer[:])
	if err != nil {
		return 0, failed, err
	}
	if _, err := fmt.Sscan(string(answer[:n]), &pid, &failed.CPUs, &failed.Nodes); err != nil {
		return 0, failed, ErrUnable
	}
	if f.Cgroup != nil {
		_ = f.Cgroup.Add(pid) // as with Enter, orphans are harder to find without
	}
	_, err = unix.Write(ends[0], []byte{1})
	return pid, failed, err
}

func (s *Server) send(body []byte, files []int) error {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	if err := unix.Sendmsg(s.socket, head, unix.UnixRights(files...), nil, unix.MSG_NOSIGNAL); err != nil {
		return err
	}
	for len(body) > 0 {
		n, err := unix.SendmsgN(s.socket, body, nil, nil, unix.MSG_NOSIGNAL)
		if err != nil && err != unix.EINTR {
			return err
		}
		body = body[n:]
	}
	return nil
}

// body is a request as server.py's become_rank reads it.
func body(f *process.Fork, at int) []byte {
	fields := []string{
		f.Dir, strconv.Itoa(at), strconv.Itoa(len(f.Argv)), members(f.Binding.CPUs),
		strconv.Itoa(unix.SYS_SET_MEMPOLICY), strconv.Itoa(f.Binding.Policy), members(f.Binding.Nodes),
	}
	return []byte(strings.Join(slices.Concat(fields, f.Argv, f.Env), "\x00"))
}

// members lists the numbers in a mask, separated by commas.
func members(mask []uint64) string {
	var list []string
	for i, word := range mask {
		for bit := range 64 {
			if word&(1<<bit) != 0 {
				list = append(list, strconv.Itoa(i*64+bit))
			}
		}
	}
	return strings.Join(list, ",")
}

// forImports returns the variables that matter when modules are imported: those of the dynamic linker, of Python, and
// of libraries that start threads.
func forImports(environ []string) (list []string) {
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasSuffix(name, "_NUM_THREADS") || slices.ContainsFunc([]string{
			"LD_", "PYTHON", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "MALLOC_", "GLIBC_",
		}, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			list = append(list, entry)
		}
	}
	return list
}

// end ends the server; mu is held.
func (s *Server) end() {
	if !s.broken {
		s.broken = true
		_ = unix.Shutdown(s.socket, unix.SHUT_RDWR)
		_ = s.cmd.Process.Kill()
		s.running.Wait()
		unix.Close(s.socket)
	}
}

// Close ends the server. Ranks that it has forked go on.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}
