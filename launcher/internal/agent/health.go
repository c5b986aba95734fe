package agent

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorun/env"
	"gorun/rendezvous/tcpstore"
)

// Health answers liveness probes, such as Kubernetes', on a port of all addresses. The answer only says whether this
// launcher or agent is alive. The methods of a nil Health do nothing.
type Health struct {
	listener net.Listener
	// busy is when the handling of the current frame began, in nanoseconds since 1970; 0: idle.
	busy    atomic.Int64
	slots   chan struct{}
	conns   sync.Map // being answered
	serving sync.WaitGroup
}

const (
	healthTimeout      = 5 * time.Second // for a question, and for its answer
	healthPeers        = 32              // at once; more wait in the kernel
	healthRequestLimit = 4096            // bytes of a question that are read
	// healthStuck is when an agent that handles one frame is taken for dead, as torchrun's watchdog that makes no
	// progress.
	healthStuck = 60 * time.Second
)

// OpenHealth listens on the port text, the value of TORCHELASTIC_HEALTH_CHECK_PORT. If the port is taken it calls
// notice and returns nil: another gorun on the host may answer, which is no reason to end this job.
func OpenHealth(text string, notice func(format string, args ...any)) (*Health, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("%s: %q is not a TCP port (1 to 65535)", env.VarTorchelasticHealthCheckPort, text)
	}
	listener, err := net.Listen("tcp", ":"+text)
	if err != nil {
		holder := ""
		if pid, name, ok := tcpstore.Holder(int(port)); ok {
			holder = fmt.Sprintf(" by %s (pid %d)", name, pid)
		}
		notice("%s=%s: gorun does not answer health checks of this job: %v%s; name a free port, or unset the variable",
			env.VarTorchelasticHealthCheckPort, text, err, holder)
		return nil, nil
	}
	return newHealth(listener), nil
}

func newHealth(listener net.Listener) *Health {
	h := &Health{listener: listener, slots: make(chan struct{}, healthPeers)}
	h.serving.Go(h.serve)
	return h
}

// Close stops listening and closes all connections.
func (h *Health) Close() {
	if h != nil {
		_ = h.listener.Close()
		h.conns.Range(func(c, _ any) bool {
			_ = c.(net.Conn).Close() // a silent peer must not delay the end of the job
			return true
		})
		h.serving.Wait()
	}
}

func (h *Health) serve() {
	for {
		h.slots <- struct{}{}
		c, err := h.listener.Accept()
		if err != nil {
			return
		}
		h.serving.Go(func() {
			h.conns.Store(c, nil)
			h.answer(c)
			_ = c.Close()
			h.conns.Delete(c)
			<-h.slots
		})
	}
}

// answer implements as much HTTP/1.1 as probes need: GET or HEAD of any path, one request per connection.
func (h *Health) answer(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(healthTimeout))
	lines := bufio.NewScanner(io.LimitReader(c, healthRequestLimit))
	if !lines.Scan() {
		return // a probe that only connects
	}
	request := strings.Fields(lines.Text())
	for lines.Scan() && lines.Text() != "" { // closing with unread data would reset the connection
		continue
	}
	status, body := h.state()
	switch {
	case len(request) != 3 || !strings.HasPrefix(request[2], "HTTP/1."):
		status, body = "400 Bad Request", "not HTTP/1.1"
	case request[0] != "GET" && request[0] != "HEAD":
		status, body = "405 Method Not Allowed\r\nAllow: GET, HEAD", "only GET and HEAD"
	}
	body += "\n"
	text := fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
		status, len(body))
	if len(request) > 0 && request[0] != "HEAD" {
		text += body
	}
	_, _ = io.WriteString(c, text) // the peer may be gone
}

func (h *Health) state() (status, body string) {
	since := h.busy.Load()
	if busy := time.Since(time.Unix(0, since)); since != 0 && busy > healthStuck {
		return "503 Service Unavailable", "the agent has been stuck for " + busy.Round(time.Second).String()
	}
	return "200 OK", "alive"
}

// working records that the agent starts or ends handling a frame.
func (h *Health) working(begins bool) {
	switch {
	case h == nil:
	case begins:
		h.busy.Store(time.Now().UnixNano())
	default:
		h.busy.Store(0)
	}
}

// openHealth answers probes of this node from its first ranks on, unless the launcher does already. If each rank
// has its own process, local rank 0 answers.
func (a *Agent) openHealth(environ []string) (err error) {
	port := lookup(environ, env.VarTorchelasticHealthCheckPort)
	joined := a.cfg.Joined
	if port == "" || a.health != nil || joined != nil && joined.Task != nil && joined.Task.LocalRank != 0 {
		return nil
	}
	a.health, err = OpenHealth(port, a.notice)
	return err
}
