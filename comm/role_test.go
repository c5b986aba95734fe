package comm_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gorun/comm"
	"gorun/comm/commtest"
	"gorun/comm/internal/nccl/fake"
)

// roleVariable turns this test binary into a rank. The other variables select the rank and its actions.
const (
	roleVariable  = "COMM_TEST_ROLE"
	placeVariable = "COMM_TEST_PLACE"
)

// place contains a rank's parameters.
type place struct {
	Rank, Size int
	Store      string
	Call       string
	Count      int
	Seed       uint64
	Timeout    time.Duration
	Spread     bool // each rank on its own host
}

// outcome is a rank's final report.
type outcome struct {
	Lost    int   // the rank in a PeerError, -1 for none
	Late    []int // the ranks in a TimeoutError
	Text    string
	Left    []string // resources that remain after Close
	Clean   bool     // Close returned no error
	Elapsed time.Duration
}

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		_ = flag.Set("test.parallel", "8") // parallel tests mostly wait
		goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
			fake.Remove()
			os.Exit(code)
		}))
	case "loop":
		os.Exit(loop())
	case "last":
		os.Exit(last())
	case "drawn":
		os.Exit(drawn())
	case "neighbour":
		os.Exit(neighbour())
	default:
		if err := others[os.Getenv(roleVariable)](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// calls contains the calls that ranks make in a loop, by name. Each accepts a number of elements.
var calls = map[string]func(n int) caller{
	"Barrier":        func(int) caller { return barrier },
	"AllReduce":      func(n int) caller { return allReduce[float32](n, comm.Sum) },
	"Reduce":         func(n int) caller { return reduce(n, 0) },
	"Broadcast":      func(n int) caller { return broadcast(n, 0) },
	"AllGather":      allGather,
	"AllGatherV":     func(n int) caller { return allGatherV(n, 2*n) },
	"ReduceScatter":  reduceScatter,
	"ReduceScatterV": reduceScatterV,
	"Gather":         func(n int) caller { return gather(n, 0) },
	"GatherV":        func(n int) caller { return blocksV(n, true) },
	"Scatter":        func(n int) caller { return scatter(n, 0) },
	"ScatterV":       func(n int) caller { return blocksV(n, false) },
	"AllToAll":       allToAll,
	"AllToAllV":      allToAllV,
	"SendRecv":       circle,
	"Send":           chain,
}

func reduceScatter(n int) caller {
	return func(ctx context.Context, g *comm.Group) error {
		return comm.ReduceScatter(ctx, g, make([]int32, n*g.Size()), make([]int32, n), comm.Max)
	}
}

func reduceScatterV(n int) caller {
	return func(ctx context.Context, g *comm.Group) error {
		counts, total := make([]int, g.Size()), 0
		for rank := range counts {
			counts[rank] = n + rank
			total += n + rank
		}
		return comm.ReduceScatterV(ctx, g, make([]int32, total), make([]int32, counts[g.Rank()]), counts, comm.Sum)
	}
}

// blocksV gathers or scatters n elements, plus one for each rank, at rank 1.
func blocksV(n int, gather bool) caller {
	return func(ctx context.Context, g *comm.Group) error {
		counts, total := make([]int, g.Size()), 0
		for rank := range counts {
			counts[rank] = n + rank
			total += n + rank
		}
		if gather {
			return comm.GatherV(ctx, g, make([]int32, counts[g.Rank()]), make([]int32, total), counts, 1)
		}
		return comm.ScatterV(ctx, g, make([]int32, total), make([]int32, counts[g.Rank()]), counts, 1)
	}
}

func allToAllV(n int) caller {
	return func(ctx context.Context, g *comm.Group) error {
		counts := make([]int, g.Size())
		for rank := range counts {
			counts[rank] = n + rank + g.Rank()
		}
		total := g.Size()*(n+g.Rank()) + g.Size()*(g.Size()-1)/2
		return comm.AllToAllV(ctx, g, make([]int32, total), counts, make([]int32, total), counts)
	}
}

// circle sends around the ring of ranks.
func circle(n int) caller {
	return func(ctx context.Context, g *comm.Group) error {
		to, from := (g.Rank()+1)%g.Size(), (g.Rank()+g.Size()-1)%g.Size()
		return comm.SendRecv(ctx, g, make([]int32, n), to, make([]int32, n), from)
	}
}

// chain sends from rank to rank, and from the last back to the first, so that no rank runs ahead.
func chain(n int) caller {
	return func(ctx context.Context, g *comm.Group) error {
		to, from := (g.Rank()+1)%g.Size(), (g.Rank()+g.Size()-1)%g.Size()
		if g.Rank() == 0 {
			return errors.Join(send(n, to)(ctx, g), recv(n, from)(ctx, g))
		}
		if err := recv(n, from)(ctx, g); err != nil {
			return err
		}
		return send(n, to)(ctx, g)
	}
}

func placeFromOptions() (p place) {
	if err := json.Unmarshal([]byte(os.Getenv(placeVariable)), &p); err != nil {
		panic(err)
	}
	return p
}

func (p place) join() *comm.Group {
	options := []comm.Option{comm.WithRank(p.Rank, p.Size), comm.WithStore(p.Store), comm.WithTimeout(p.Timeout)}
	if p.Spread {
		options = append(options, comm.WithHost(strconv.Itoa(p.Rank)), comm.WithKey(bytes.Repeat([]byte("k"), 32)))
	}
	g, err := comm.Join(context.Background(), options...)
	if err != nil {
		panic(err)
	}
	return g
}

// loop makes the call until it fails. A rank that reads "late" from its input waits for a second line first.
func loop() int {
	p := placeFromOptions()
	g := p.join()
	call := calls[p.Call](p.Count)
	shared, err := comm.Allocate[byte](context.Background(), g, 5000)
	if err != nil {
		panic(err)
	}
	shared.Data[0] = 1
	words := orders()
	if <-words == "late" {
		<-words
	}
	start := time.Now()
	for err == nil {
		err = call(context.Background(), g)
	}
	return p.tell(g, err, time.Since(start))
}

// last makes one call, after which rank 1 exits without Close. The others wait for its exit and must have complete
// results.
func last() int {
	p := placeFromOptions()
	g := p.join()
	<-orders()
	err := calls[p.Call](p.Count)(context.Background(), g)
	if err == nil && p.Rank == 1 {
		return 0
	}
	return p.tell(g, err, 0)
}

// drawn makes random calls, which are the same on all ranks.
func drawn() int {
	p := placeFromOptions()
	g := p.join()
	<-orders()
	return p.tell(g, commtest.Calls(context.Background(), g, p.Seed, p.Count), 0)
}

// orders reports that the rank is ready and returns the lines from the test. The rank exits when the test does.
func orders() <-chan string {
	words := make(chan string)
	go listen(words)
	fmt.Println("ready")
	return words
}

func listen(words chan<- string) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words <- lines.Text()
	}
	os.Exit(3)
}

func (p place) tell(g *comm.Group, err error, elapsed time.Duration) int {
	o := outcome{Lost: -1, Elapsed: elapsed}
	var lost *comm.PeerError
	var late *comm.TimeoutError
	if errors.As(err, &lost) {
		o.Lost = lost.Rank
	}
	if errors.As(err, &late) {
		o.Late = late.Ranks
	}
	if err != nil {
		o.Text = err.Error()
	}
	o.Clean = g.Close() == nil
	o.Left = leftover()
	line, _ := json.Marshal(o)
	fmt.Println(string(line))
	return 0
}

// leftover returns the resources in this process that a closed group must not leave.
func leftover() (left []string) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return []string{err.Error()}
	}
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "gorun-comm") {
			left = append(left, line)
		}
	}
	descriptors, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range descriptors {
		target, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if number, _ := strconv.Atoi(fd.Name()); err == nil && number > 2 &&
			(strings.HasPrefix(target, "socket:") || strings.Contains(target, "memfd")) {
			left = append(left, target)
		}
	}
	if err := goleak.Find(goleak.IgnoreAnyFunction("gorun/comm_test.listen"),
		// runs once for each process, for as long as the kernel takes
		goleak.IgnoreAnyFunction("gorun/comm/internal/cpu._Cfunc_gorun_engine_register")); err != nil {
		left = append(left, err.Error())
	}
	return left
}
