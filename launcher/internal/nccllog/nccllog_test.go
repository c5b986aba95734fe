package nccllog

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/launcher/internal/spec"
)

var update = flag.Bool("update", false, "write what comes out as what is wanted")

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name, line string
		want       Line
	}{
		// As NCCL 2.30.7 itself prints them, by each setting of timestamps.
		{
			"info", "vm:5075:5076 [0] NCCL INFO Using network Socket",
			Line{Info, "Using network Socket"},
		},
		{
			"info with time", "[2026-11-22 17:02:04] vm:5128:5128 [3] NCCL INFO Using network Socket\r",
			Line{Info, "Using network Socket"},
		},
		{
			"info with fraction", "1795366924 571 vm:5170:5170 [0] NCCL INFO Using network Socket",
			Line{Info, "Using network Socket"},
		},
		{
			"warn", "[2026-11-22 17:02:03] vm:5033:5033 [0] misc/socket.cc:586 (ncclSocketInit) NCCL WARN Call to bind failed",
			Line{Warn, "Call to bind failed"},
		},
		{"warn of older versions", "vm:1:2 [-1] init.cc:57 NCCL WARN x", Line{Warn, "x"}},
		{"version", "NCCL version 2.30.7+cuda13.3", Line{Version, "NCCL version 2.30.7+cuda13.3"}},
		{
			"version with time", "[2026-11-22 17:02:04] NCCL version 2.30.7+cuda13.3",
			Line{Version, "NCCL version 2.30.7+cuda13.3"},
		},
		{"RCCL", "RCCL version : 2.22.3-HEAD:9ac1fbd", Line{Version, "RCCL version : 2.22.3-HEAD:9ac1fbd"}},
		{"trace", "vm:1:2 [0] 12.5 init.cc:1 NCCL TRACE x", Line{Other, "x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := Parse([]byte(tc.line))
			assert.True(t, ok)
			assert.Equal(t, tc.want, got)
		})
	}
	for _, line := range []string{
		"", "NCCL", "epoch 1", "I like NCCL WARN lines", "print('NCCL version 2.30.7')",
		"torch.cuda.nccl: NCCL version unknown, see the documentation of it",
		"[rank0]:[W1122 ProcessGroupNCCL.cpp:1538] Warning: NCCL INFO is not set", "vm:1 [0] NCCL INFO x",
		"vm:1:2 0 NCCL INFO x", "oneCCL INFO x",
	} {
		_, ok := Parse([]byte(line))
		assert.False(t, ok, line)
	}
}

func TestNormalize(t *testing.T) {
	same := [][2]string{
		{
			"socketProgress: Connection closed by remote peer n2<40123>",
			"socketProgress: Connection closed by remote peer n2<51000>",
		},
		{"[Rank 3] comm 0x55d0aa0 failed", "[Rank 5] comm 0x7f00aa failed"},
		{
			"Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1b000",
			"Duplicate GPU detected : rank 3 and rank 2 both on CUDA device 1b000",
		},
		{"localRank=3 busId 12", "localRank=4 busId 13"},
	}
	for _, pair := range same {
		assert.Equal(t, normalize(pair[0]), normalize(pair[1]))
	}
	for _, pair := range [][2]string{
		{"failed with error 12", "failed with error 13"},
		{"/dev/shm/nccl-abc to 9637888 bytes", "/dev/shm/nccl-abc to 4096 bytes"},
		{"NCCL_ALGO 2.26", "NCCL_ALGO 2.27"},
	} {
		assert.NotEqual(t, normalize(pair[0]), normalize(pair[1]))
	}
}

// feed has ranks print a log, of which each line begins with its rank, in pieces of some bytes; 0: line by line.
func feed(c *Collector, log []byte, piece int) {
	streams := map[int][]byte{}
	for line := range bytes.Lines(log) {
		rank, text, _ := bytes.Cut(bytes.TrimSuffix(line, []byte{'\n'}), []byte{' '})
		n, _ := strconv.Atoi(string(rank))
		text = append(slices.Clone(text), '\n')
		if piece == 0 {
			c.Write(n, 1, text)
			continue
		}
		streams[n] = append(streams[n], text...)
	}
	for _, rank := range slices.Sorted(maps.Keys(streams)) {
		for part := range slices.Chunk(streams[rank], max(piece, 1)) {
			c.Write(rank, 1, part)
		}
	}
}

// report is all that a Collector found, for comparison.
func report(c *Collector) string {
	var b strings.Builder
	ready, alone := c.Ready()
	fmt.Fprintf(&b, "ready %v, alone %v\n", ready, alone)
	for _, s := range c.Summaries(nil) {
		fmt.Fprintf(&b, "%s %v", s.Text, s.Ranks)
		if s.VersionOnly {
			b.WriteString(" alone")
		}
		if s.InitSeconds > 0 {
			fmt.Fprintf(&b, " %gs", s.InitSeconds)
		}
		b.WriteString("\n")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Versions())) {
		fmt.Fprintf(&b, "version %s %v\n", name, c.Versions()[name])
	}
	for rank := range 4 {
		if f := c.ranks[rank]; f != nil {
			fmt.Fprintf(&b, "rank %d: network %q, interfaces %q, ports %q, bootstrap %q, size %d\n", rank,
				f.Network, f.Interfaces, f.Ports, f.Bootstrap, f.Size)
		}
	}
	for _, w := range c.Warnings() {
		fmt.Fprintf(&b, "WARN %v %d times: %s\n", w.Ranks, w.Times, w.Text)
	}
	return b.String()
}

func TestLogs(t *testing.T) {
	logs, err := filepath.Glob("testdata/*.log")
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	for _, name := range logs {
		t.Run(filepath.Base(name), func(t *testing.T) {
			log, err := os.ReadFile(name)
			require.NoError(t, err)
			c := New(4)
			feed(c, log, 0)
			golden := strings.TrimSuffix(name, ".log") + ".golden"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(report(c)), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), report(c))
			for _, piece := range []int{1, 7, 100, 4096} { // however it is written, but for whose warning came first
				again := New(4)
				feed(again, log, piece)
				assert.Equal(t, c.Summaries(nil), again.Summaries(nil), "in pieces of %d bytes", piece)
				assert.Len(t, again.Warnings(), len(c.Warnings()))
			}
		})
	}
}

// The machine may know of NVLink what NCCL does not say.
func TestLinked(t *testing.T) {
	c := New(2)
	feed(c, []byte("0 a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"+
		"1 a:2:2 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM\n"), 0)
	assert.Equal(t, []spec.NCCLSummary{{Text: "NCCL over P2P", Ranks: []int{0, 1}}}, c.Summaries(nil))
	assert.Equal(t,
		[]spec.NCCLSummary{{Text: "NCCL over P2P", Ranks: []int{0}}, {Text: "NCCL over NVLink P2P", Ranks: []int{1}}},
		c.Summaries(func(rank int) bool {
			return rank == 1
		}))
}

// Output without NCCL costs nothing that lasts.
func TestSilence(t *testing.T) {
	c := New(2)
	text := []byte("step 1 loss 0.5\nstep 2 loss 0.4\n")
	assert.Zero(t, testing.AllocsPerRun(100, func() { c.Write(1, 1, text) }))
	ready, alone := c.Ready()
	assert.False(t, ready || alone)
	assert.Empty(t, c.Summaries(nil))
	assert.False(t, c.Write(2, 1, []byte("NCCL version 2.30.7\n")), "a rank beyond those of the start")
	assert.False(t, c.Write(0, 0, []byte("NCCL version 2.30.7\n")))
}

// What ranks print cannot fill the memory.
func TestCaps(t *testing.T) {
	c := New(1)
	for i := range 10 * maxWarnings {
		c.Write(0, 1, fmt.Appendf(nil, "a:1:1 [0] x.cc:1 NCCL WARN failed %d\n", i))
	}
	assert.Len(t, c.Warnings(), maxWarnings)
	assert.Equal(t, 9*maxWarnings, c.dropped)
	c.Write(0, 1, bytes.Repeat([]byte("x"), 1<<20))
	assert.LessOrEqual(t, cap(c.streams[0].held), 2*maxLine)
	c.Write(0, 1, []byte("a:1:1 [0] NCCL INFO Using network IB\n"))
	f := c.ranks[0]
	require.NotNil(t, f)
	assert.Empty(t, f.Network, "it is the end of a line that began with something else")
	c.Write(0, 1, append([]byte("a:1:1 [0] NCCL INFO Using network IB"), bytes.Repeat([]byte("x"), 1<<20)...))
	c.Write(0, 1, []byte("\n"))
	assert.Len(t, f.Network, maxText)
	c.Write(0, 2, []byte("a:1:1 [0] NCCL INFO NET/IB : Using"+strings.Repeat(" [0]m:1/IB", 300)+"\n"))
	assert.Len(t, f.Ports, maxNames)
}

func TestNodeList(t *testing.T) {
	assert.Equal(t, []string{"eth0", "mlx5_[0-2,10]"},
		nodeList([]string{"mlx5_10", "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_1", "eth0"}))
	assert.Equal(t, []string{"ib", "ib[0-1]"}, nodeList([]string{"ib1", "ib", "ib0"}))
	assert.Empty(t, nodeList(nil))
}

// The words that identify lines are those of the real library.
func TestWordsOfTheLibrary(t *testing.T) {
	python := testneeds.Torch(t)
	found, err := filepath.Glob(filepath.Join(filepath.Dir(python), "..", "lib", "python3*", "site-packages", "nvidia",
		"nccl", "lib", "libnccl.so.2"))
	require.NoError(t, err)
	if len(found) == 0 {
		testneeds.Skip(t, testneeds.LayerTorch, "PyTorch came without NCCL")
	}
	library, err := os.ReadFile(found[0])
	require.NoError(t, err)
	for _, words := range []string{
		"%s:%d:%d ", "[%d] NCCL INFO %s", "[%d] %s:%d (%s) NCCL WARN %s", "[%F %T] ", "NCCL version 2.",
		"Using network %s", "Bootstrap: Using%s", "NET/Socket : Using%s", " [%d]%s:%s", "NET/IB : Using%s %s; OOB %s:%s",
		"GPU Direct RDMA %s for HCA %d",
		"comm %p rank %d nRanks %d nNodes %d localRanks %d localRank %d MNNVL %d",
		"%d coll channels, %d collnet channels, %d nvls channels",
		"nranks %d cudaDev %d nvmlDev %d busId %lx commId 0x%llx - Init COMPLETE",
		"Init timings - %s: rank %d nranks %d total %.2f",
		"Channel %02d/%01d : %d[%d] -> %d[%d] via P2P/%s%s%s", "via SHM/", "[receive] via NET/%s/%d%s%s%s",
		"[send] via NET/%s/%d(%d)%s%s%s", "/GDRDMA",
		"Connected all rings, use ring PXN %d GDR %d", "Connected all trees", "Connected NVLS tree",
		"NVLS multicast support is %savailable on dev %d",
		"CollNet %02d/%1d : %d [receive] via COLLNET/%s/%d%s%s",
	} {
		assert.Truef(t, bytes.Contains(library, []byte(words)), "%q", words)
	}
}

// What is kept up line by line is what the facts of all ranks say together.
func TestTotal(t *testing.T) {
	c := New(4)
	say := func(rank int, text string) { c.Write(rank, 1, []byte("a:1:1 [0] NCCL INFO "+text+"\n")) }
	ready := func() bool { is, _ := c.Ready(); return is }
	say(0, "NCCL version 2.30.7+cuda13.3")
	say(1, "NCCL version 2.30.7+cuda13.3")
	assert.False(t, c.Mixed())
	for rank := range 2 {
		say(rank, "ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1 commId 0x1 - Init COMPLETE")
	}
	say(0, "Connected all rings")
	say(0, "Connected all trees")
	assert.False(t, ready(), "one of two")
	say(1, "Connected all rings")
	assert.True(t, ready())
	say(2, "NCCL version 2.29.1+cuda13.3")
	assert.True(t, c.Mixed())
	assert.Len(t, c.Versions(), 2)
}

// BenchmarkNews is lines with news of many ranks, which must not cost more the more ranks there are.
func BenchmarkNews(b *testing.B) {
	const ranks = 10_000
	c, n := New(ranks), 0
	for b.Loop() {
		c.Write(n%ranks, 1, fmt.Appendf(nil, "a:1:1 [0] NCCL INFO Using network %d\n", n))
		c.Ready()
		c.Mixed()
		n++
	}
}

func FuzzWrite(f *testing.F) {
	logs, err := filepath.Glob("testdata/*.log")
	require.NoError(f, err)
	for _, name := range logs {
		log, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(log, 13)
	}
	f.Add([]byte("0 a:1:1 [0] NCCL INFO NET/IB : Using [9999999999999999999]m:1/IB [-1] [1]:\n"), 3)
	f.Fuzz(func(t *testing.T, log []byte, piece int) {
		c := New(4)
		feed(c, log, max(piece%5000, 0))
		for _, s := range c.Summaries(nil) {
			if s.Text == "" || len(s.Ranks) == 0 {
				t.Fatalf("an empty summary: %+v", s)
			}
		}
		_ = report(c)
	})
}

func BenchmarkSilence(b *testing.B) {
	c, text := New(1), bytes.Repeat([]byte("step 1 loss 0.5 and so on and on\n"), 2000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		c.Write(0, 1, text)
	}
}

func BenchmarkInfo(b *testing.B) {
	c, text := New(1),
		bytes.Repeat([]byte("a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA\n"), 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		c.Write(0, 1, text)
	}
}

// A rank cannot have a report fail for all others: JSON has neither Inf nor NaN.
func TestInitTimesOfHostileRanks(t *testing.T) {
	c := New(1)
	for _, total := range []string{"0.25", "Inf", "+Inf", "infinity", "NaN", "-Inf", "1e999", "-1"} {
		const line = "h:1:1 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 1 total %s (kernels 0.1)\n"
		c.Write(0, 1, fmt.Appendf(nil, line, total))
	}
	f := c.ranks[0]
	require.NotNil(t, f)
	require.Equal(t, 0.25, f.InitSeconds)
	_, err := json.Marshal(f)
	require.NoError(t, err)
}
