package agent

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"gorun/env"
	"gorun/launcher/internal/httpserver"
	"gorun/rendezvous/tcpstore"
)

// Health answers liveness probes, such as Kubernetes', on a port of all addresses. The answer only says whether this
// launcher or agent is alive. The methods of a nil Health do nothing.
type Health struct {
	server *httpserver.Server
	// busy is when the handling of the current frame began, in nanoseconds since 1970; 0: idle.
	busy atomic.Int64
}

// healthStuck is when an agent that handles one frame is taken for dead, as torchrun's watchdog that makes no progress.
const healthStuck = 60 * time.Second

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
	h := &Health{}
	h.server = httpserver.New(listener, h.respond)
	return h, nil
}

// Close stops listening and closes all connections.
func (h *Health) Close() {
	if h != nil {
		h.server.Close()
	}
}

// respond answers any path.
func (h *Health) respond(context.Context, string) httpserver.Response {
	since := h.busy.Load()
	if busy := time.Since(time.Unix(0, since)); since != 0 && busy > healthStuck {
		text := "the agent has been stuck for " + busy.Round(time.Second).String() + "\n"
		return httpserver.Response{Status: "503 Service Unavailable", Body: text}
	}
	return httpserver.Response{Status: "200 OK", Body: "alive\n"}
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
