package output

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// helperEnv makes the test binary a helper that prints to its real stdout through a Console.
const helperEnv = "OUTPUT_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	os.Exit(printToStdout())
}

// printToStdout prints one line and reports the result on stderr.
func printToStdout() int {
	c := NewConsole(Config{
		Stdout: Destination{W: os.Stdout},
		Stderr: Destination{W: os.Stderr},
		Ranks:  ranks(2),
		Failed: func(stream int, err error) { fmt.Fprintf(os.Stderr, "failed %d: %v\n", stream, err) },
	})
	c.Write(0, Stdout, []byte("hello\n"))
	if err := c.Close(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stderr, "alive")
	return 0
}

// ranks returns n ranks on one host, 0 to n-1.
func ranks(n int) []RankInfo {
	infos := make([]RankInfo, n)
	for i := range infos {
		infos[i] = RankInfo{Rank: i, LocalRank: i, Host: "node1.example.org", Role: "default"}
	}
	return infos
}

// recorder is a destination that records its input.
type recorder struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

// take returns the input since the last call.
func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.buf.String()
	r.buf.Reset()
	return s
}

// gate is a destination that blocks until it is opened.
type gate struct {
	recorder
	entered chan struct{} // gets a value when a write begins
	opened  chan struct{}
}

func newGate() *gate {
	return &gate{entered: make(chan struct{}, 1000), opened: make(chan struct{})}
}

func (g *gate) Write(p []byte) (int, error) {
	g.entered <- struct{}{}
	<-g.opened
	return g.recorder.Write(p)
}

// account sums the returned credit.
type account struct {
	mu   sync.Mutex
	sums map[[2]int]int // by rank and stream
}

func (a *account) consumed(rank, stream, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sums == nil {
		a.sums = make(map[[2]int]int)
	}
	a.sums[[2]int{rank, stream}] += n
}

func (a *account) of(rank, stream int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sums[[2]int{rank, stream}]
}

// bar returns text as tqdm prints it, with a carriage return first.
func bar(text string) string { return "\r" + text }

// blank returns n blanks between carriage returns, which clear a row.
func blank(n int) string { return "\r" + strings.Repeat(" ", n) + "\r" }
