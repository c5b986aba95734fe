// Package rastest is a stand-in for NCCL's RAS port: a server that was written from the protocol's description, for
// tests where no library is. What it answers is given to it.
package rastest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Server says how it answers.
type Server struct {
	// JSON and Text are what STATUS gives in either form. Without JSON it does as versions before 2.28.7 do, which know
	// no other form.
	JSON, Text string
	// Silent is how many connections it accepts without a word first, as stopped processes do.
	Silent int
	// Asked counts what it answered STATUS.
	Asked atomic.Int32
}

// Start serves at a free port of 127.0.0.1 until the test ends.
func (s *Server) Start(t testing.TB) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		busy  sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
	)
	busy.Go(func() {
		for n := 0; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			if n >= s.Silent {
				busy.Go(func() { s.serve(conn) })
			}
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		busy.Wait()
	})
	return listener.Addr().String()
}

func (s *Server) serve(conn net.Conn) {
	defer conn.Close()
	json := false
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		line := strings.ToLower(lines.Text())
		switch {
		case strings.HasPrefix(line, "client protocol "):
			fmt.Fprintln(conn, "SERVER PROTOCOL 2")
		case strings.HasPrefix(line, "timeout "), line == "set format text" && s.JSON != "":
			fmt.Fprintln(conn, "OK")
		case line == "set format json" && s.JSON != "":
			json = true
			fmt.Fprintln(conn, "OK")
		case line == "status", line == "verbose status":
			text := s.Text
			if json {
				text = s.JSON
			}
			s.Asked.Add(1)
			fmt.Fprint(conn, text)
			return
		default:
			fmt.Fprintf(conn, "ERROR: Unknown command %s\n", lines.Text())
		}
	}
}
