// Package httpserver answers small HTTP requests without net/http, whose initialization every start of gorun would pay
// for.
package httpserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// Limits of what peers may cost.
const (
	peerTimeout  = 5 * time.Second // for a request, and for taking the response
	maxPeers     = 32              // at once; more wait in the kernel
	requestLimit = 4096            // bytes of a request that are read

	acceptPause = 100 * time.Millisecond // after a failed accept, such as for lack of descriptors
)

// Response is the response to GET or HEAD.
type Response struct {
	Status string // "200 OK"
	Type   string // of the body; "": text/plain
	Body   string
}

// Respond returns the response for a path, such as "/metrics". The context ends with the server.
type Respond func(ctx context.Context, path string) Response

// Server answers one request per connection. The methods of a nil Server do nothing.
type Server struct {
	listener net.Listener
	respond  Respond
	context  context.Context
	cancel   context.CancelFunc
	slots    chan struct{}
	serving  sync.WaitGroup
}

// New serves connections of a listener until Close, which closes it, too.
func New(listener net.Listener, respond Respond) *Server {
	s := &Server{listener: listener, respond: respond, slots: make(chan struct{}, maxPeers)}
	s.context, s.cancel = context.WithCancel(context.Background())
	s.serving.Go(s.serve)
	return s
}

// Close stops listening and closes all connections.
func (s *Server) Close() {
	if s != nil {
		_ = s.listener.Close()
		s.cancel() // a silent peer must not delay the end of the job
		s.serving.Wait()
	}
}

func (s *Server) serve() {
	for {
		s.slots <- struct{}{}
		c, err := s.listener.Accept()
		if err != nil {
			<-s.slots
			select {
			case <-s.context.Done():
				return
			case <-time.After(acceptPause):
				continue
			}
		}
		s.serving.Go(func() {
			stop := context.AfterFunc(s.context, func() { _ = c.Close() })
			Answer(s.context, c, s.respond)
			stop()
			_ = c.Close()
			<-s.slots
		})
	}
}

// Answer reads a request from a connection and writes the response: as much HTTP/1.1 as probes and scrapes need.
func Answer(ctx context.Context, c net.Conn, respond Respond) {
	_ = c.SetDeadline(time.Now().Add(peerTimeout))
	lines := bufio.NewScanner(io.LimitReader(c, requestLimit))
	if !lines.Scan() {
		return // a probe that only connects
	}
	request := strings.Fields(lines.Text())
	for lines.Scan() && lines.Text() != "" { // closing with unread data would reset the connection
		continue
	}
	var r Response
	switch {
	case len(request) != 3 || !strings.HasPrefix(request[2], "HTTP/1."):
		r = Response{Status: "400 Bad Request", Body: "not HTTP/1.1\n"}
	case request[0] != "GET" && request[0] != "HEAD":
		r = Response{Status: "405 Method Not Allowed\r\nAllow: GET, HEAD", Body: "only GET and HEAD\n"}
	default:
		path, _, _ := strings.Cut(request[1], "?")
		r = respond(ctx, path)
		_ = c.SetDeadline(time.Now().Add(peerTimeout))
	}
	if r.Type == "" {
		r.Type = "text/plain"
	}
	text := fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
		r.Status, r.Type, len(r.Body))
	if len(request) > 0 && request[0] != "HEAD" {
		text += r.Body
	}
	_, _ = io.WriteString(c, text) // the peer may be gone
}
