package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"gorun/comm"
	"gorun/env"
	"gorun/placement"
)

// Host provides facts about a rank's host to a measurement of paths.
type Host struct {
	Name string
	// Memory is the limit of the ranks' control groups on memory, in bytes; 0 means none.
	Memory int64
	// Machine returns the host's hardware, with the GPUs that this process sees. Only the operation p2p calls
	// it.
	Machine func() placement.Machine
	// WriteJSON writes a report as JSON.
	WriteJSON func(w io.Writer, r *Report) error
	// Find reports whether a program is in PATH. Output runs it and returns its output.
	Find   func(program string) bool
	Output func(ctx context.Context, program string, args ...string) (string, error)
}

// Path is one path between two ranks, or between a GPU and its host's memory, measured alone. "Forth" is the
// direction from the first end to the second. Bandwidths are in 1e9 bytes/s; 0 means unknown or not measured.
type Path struct {
	From string `json:"from"` // the first end: a host and its memory, GPU or adapter
	To   string `json:"to"`   // the second end, likewise
	// By is the transport or program: "shared memory", "nccl", "tcp", "ib_write_bw".
	By string `json:"transport"`
	// Way is the class of paths between GPUs, in the notation of nvidia-smi topo -m: "NV18", "PIX".
	Way     string  `json:"class,omitempty"`
	Link    float64 `json:"link_gigabytes_per_second,omitempty"`     // what the link can carry
	Latency float64 `json:"latency_microseconds,omitempty"`          // half a round trip
	Forth   float64 `json:"forward_gigabytes_per_second,omitempty"`  // from the first end to the second
	Back    float64 `json:"backward_gigabytes_per_second,omitempty"` // from the second end to the first
	// ForthMany is the bandwidth of several TCP connections together.
	ForthMany float64 `json:"forward_streams_gigabytes_per_second,omitempty"`
	BackMany  float64 `json:"backward_streams_gigabytes_per_second,omitempty"` // the same in the other direction
	Streams   int     `json:"stream_count,omitempty"`                          // TCP connections at the same time
	Error     string  `json:"error,omitempty"`                                 // why it was not measured

	measure func(b *bench, ctx context.Context, p *Path) error
	ranks   [2]int
	ends    [2]address // of a TCP path
	nics    [2]placement.NIC
}

// best returns the highest of its bandwidths.
func (p *Path) best() float64 { return max(p.Forth, p.Back, p.ForthMany, p.BackMany) }

// end describes a rank to the other ranks.
type end struct {
	Host      string
	Node      int
	GPU       *placement.GPU
	NICs      []placement.NIC
	Addresses []address
	Missing   []string // missing programs of perftest
}

// address is an address of a host with its interface. Port is where its rank listens.
type address struct {
	Interface string
	Prefix    netip.Prefix
	Port      uint16
}

func (a address) String() string { return a.Interface + " " + a.Prefix.Addr().String() }

// mostGPUs is the largest number of GPUs for which every pair is measured.
const mostGPUs = 8

// paths finds the paths between the ranks and measures each alone.
func (b *bench) paths(ctx context.Context) ([]Path, error) {
	ends, err := b.ends(ctx)
	if err != nil {
		return nil, err
	}
	paths := plan(ends, b.group.Backend())
	far := otherHost(ends)
	var server *streamServer
	if far > 0 {
		if server, err = b.serveStreams(ctx, far, paths); err != nil {
			return nil, err
		}
		defer server.close()
	}
	for i := range paths {
		p := &paths[i]
		if p.Error == "" {
			if err := b.agree(ctx, p, p.measure(b, ctx, p)); err != nil {
				return nil, err
			}
		}
	}
	return paths, nil
}

// ends gathers the descriptions of all ranks.
func (b *bench) ends(ctx context.Context) (ends []end, err error) {
	self, err := env.Self()
	if err != nil { // a group of one rank, or without a launcher
		self = env.Rank{LocalRank: b.group.Rank()}
	}
	m := b.host.Machine()
	mine := end{Host: b.host.Name, Node: self.Node, Addresses: ownAddresses()}
	if m.Topology != nil {
		mine.NICs = m.Topology.NICs
	}
	if b.group.Backend() == "nccl" {
		mine.GPU = gpuOf(m.GPUs, self.LocalRank)
	}
	for _, program := range []string{writeBandwidth, writeLatency} {
		if !b.host.Find(program) {
			mine.Missing = append(mine.Missing, program)
		}
	}
	err = share(ctx, b.group, mine, &ends)
	return ends, err
}

// gpuOf returns the GPU that comm uses: the only visible one, or the one with the local rank's number.
func gpuOf(seen []placement.GPU, localRank int) *placement.GPU {
	if len(seen) == 1 {
		localRank = 0
	}
	if localRank < 0 || localRank >= len(seen) {
		return nil
	}
	return &seen[localRank]
}

// share gathers a value of each rank on all ranks.
func share[T any](ctx context.Context, g *comm.Group, mine T, all *[]T) error {
	text, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	lengths := make([]int64, g.Size())
	if err := comm.AllGather(ctx, g, []int64{int64(len(text))}, lengths); err != nil {
		return err
	}
	counts, sum := make([]int, len(lengths)), 0
	for i, n := range lengths {
		counts[i] = int(n)
		sum += counts[i]
	}
	texts := make([]byte, sum)
	if err := comm.AllGatherV(ctx, g, text, texts, counts); err != nil {
		return err
	}
	*all = make([]T, len(counts))
	for i, n := range counts {
		if err := json.Unmarshal(texts[:n], &(*all)[i]); err != nil {
			return fmt.Errorf("what rank %d says of itself: %w", i, err)
		}
		texts = texts[n:]
	}
	return nil
}

// otherHost returns the first rank on a different host than rank 0, or -1.
func otherHost(ends []end) int {
	return slices.IndexFunc(ends, func(e end) bool { return e.Node != ends[0].Node })
}

// plan lists the paths. All ranks compute the same list from the same ends.
func plan(ends []end, backend string) (paths []Path) {
	far := otherHost(ends)
	near := 1
	if backend == "nccl" {
		near = mostGPUs - 1
	}
	for j := range ends {
		for i := range j {
			isNear := ends[i].Node == ends[0].Node && ends[j].Node == ends[0].Node && j <= near
			if isNear || i == 0 && j == far {
				paths = append(paths, callPath(ends, backend, i, j))
			}
		}
	}
	if backend == "nccl" {
		for i, e := range ends[:min(len(ends), mostGPUs)] {
			if e.GPU != nil {
				paths = append(paths, Path{
					From: e.Host + " memory", To: e.place(), By: "copies", Way: "PCIe", Link: pcie(e.GPU),
					ranks: [2]int{i, i}, measure: (*bench).measureCopies,
				})
			}
		}
	}
	if far < 0 {
		return paths
	}
	tcp := interfacePaths(ends[0], ends[far])
	return append(append(paths, tcp...), rdmaPaths(ends[0], ends[far], far, tcp)...)
}

// place names the rank's GPU, or its host.
func (e end) place() string {
	if e.GPU == nil {
		return e.Host
	}
	return fmt.Sprintf("%s GPU%d", e.Host, e.GPU.Index)
}

// callPath returns the path that comm's calls use between two ranks.
func callPath(ends []end, backend string, i, j int) Path {
	a, b := ends[i], ends[j]
	p := Path{From: a.place(), To: b.place(), By: backend, ranks: [2]int{i, j}, measure: (*bench).measureCalls}
	switch {
	case backend == "cpu" && a.Node == b.Node:
		p.By = "shared memory"
		p.From, p.To = fmt.Sprintf("%s rank %d", a.Host, i), fmt.Sprintf("%s rank %d", b.Host, j)
	case backend == "cpu":
		p.By = "comm"
	case a.Node == b.Node && a.GPU != nil && b.GPU != nil:
		way := placement.PathBetweenGPUs(*a.GPU, *b.GPU)
		if p.Way = way.String(); way.Class != placement.PathLink {
			p.Link = min(pcie(a.GPU), pcie(b.GPU))
		}
	}
	return p
}

// pcie returns the bandwidth of a GPU's PCIe link in each direction, in 1e9 bytes/s.
func pcie(g *placement.GPU) float64 {
	if g.Bus == nil || g.Bus.Link == nil {
		return 0
	}
	return g.Bus.Link.Gbps() / 8
}

// interfacePaths pairs the interfaces of two hosts. It pairs interfaces with addresses in the same network,
// then the other hardware interfaces in order. In some fabrics each link is a network of its own, with routes
// between them.
func interfacePaths(a, b end) (paths []Path) {
	var used []string
	add := func(x, y address) {
		paths = append(paths, Path{
			From: a.Host + " " + x.String(), To: b.Host + " " + y.String(), By: "tcp",
			Link: slower(a.speed(x.Interface), b.speed(y.Interface)), ends: [2]address{x, y}, measure: (*bench).measureTCP,
		})
		used = append(used, "a "+x.Interface, "b "+y.Interface, x.Interface+" "+y.Interface)
	}
	for _, x := range a.Addresses {
		for _, y := range b.Addresses {
			isOne := x.Prefix.Masked() == y.Prefix.Masked() && x.Prefix.Addr() != y.Prefix.Addr()
			if isOne && !slices.Contains(used, x.Interface+" "+y.Interface) {
				add(x, y)
			}
		}
	}
	left := func(e end, mark string) (rest []address) {
		for _, x := range e.Addresses {
			isHardware := slices.ContainsFunc(e.NICs, func(n placement.NIC) bool {
				return n.Interface == x.Interface && n.Kind != placement.Virtual
			})
			if isHardware && !slices.Contains(used, mark+x.Interface) {
				rest, used = append(rest, x), append(used, mark+x.Interface)
			}
		}
		return rest
	}
	xs, ys := left(a, "a "), left(b, "b ")
	for i := range min(len(xs), len(ys)) {
		if xs[i].Prefix.Addr().Is4() == ys[i].Prefix.Addr().Is4() {
			add(xs[i], ys[i])
		}
	}
	return paths
}

// speed returns the speed of an interface from its driver, in 1e9 bytes/s; 0 means unknown.
func (e end) speed(name string) float64 {
	i := slices.IndexFunc(e.NICs, func(n placement.NIC) bool { return n.Interface == name })
	if i < 0 {
		return 0
	}
	return e.NICs[i].Gbps / 8
}

// slower returns the smaller of two bandwidths, where 0 means unknown.
func slower(a, b float64) float64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// agree distributes the ranks' measurements of a path to all of them. The error of a rank becomes the path's
// error, and other paths continue. agree returns errors of the group.
func (b *bench) agree(ctx context.Context, p *Path, err error) error {
	if err != nil {
		p.Error = strings.TrimSpace(err.Error())
	}
	var all []Path
	if err := share(ctx, b.group, *p, &all); err != nil {
		return err
	}
	p.Error = ""
	for _, said := range all {
		p.Error = cmp.Or(p.Error, said.Error)
		p.Latency = max(p.Latency, said.Latency)
		p.Forth, p.Back = max(p.Forth, said.Forth), max(p.Back, said.Back)
		p.ForthMany, p.BackMany = max(p.ForthMany, said.ForthMany), max(p.BackMany, said.BackMany)
	}
	return nil
}

// buffer allocates bytes in the memory that the back end uses for vectors.
func (b *bench) buffer(n int) (bytes []byte, free func(), err error) {
	if b.group.Backend() != "nccl" {
		return slices.Repeat([]byte{1}, n), func() {}, nil
	}
	d, err := comm.NewDeviceBuffer[uint8](b.group, n)
	if err != nil {
		return nil, nil, err
	}
	return d.Span(), func() { _ = d.Free() }, nil
}

// measureCalls measures comm's calls between two ranks. Other ranks take no part.
func (b *bench) measureCalls(ctx context.Context, p *Path) error {
	me, other := p.ranks[0], p.ranks[1]
	isFirst := b.group.Rank() == me
	if !isFirst {
		me, other = other, me
	}
	if b.group.Rank() != me {
		return nil
	}
	bytes, free, err := b.buffer(int(b.End))
	if err != nil {
		return err
	}
	defer free()
	step := func(send bool, n int) error {
		if send {
			return comm.Send(ctx, b.group, bytes[:n], other)
		}
		return comm.Recv(ctx, b.group, bytes[:n], other)
	}
	one := min(8, len(bytes))
	const rounds = 100
	pingPong, err := timed(func() error {
		for range rounds {
			if err := step(isFirst, one); err != nil {
				return err
			}
			if err := step(!isFirst, one); err != nil {
				return err
			}
		}
		return nil
	}, 2)
	if err != nil {
		return err
	}
	forth, err := b.flow(ctx, isFirst, other, len(bytes), step)
	if err != nil {
		return err
	}
	back, err := b.flow(ctx, !isFirst, other, len(bytes), step)
	if isFirst {
		p.Latency, p.Forth = pingPong.Seconds()*1e6/rounds/2, forth
	} else {
		p.Back = back
	}
	return err
}

// flow sends messages of one size in sequence, as many as fit into the time, and returns their bandwidth.
func (b *bench) flow(ctx context.Context, send bool, other, n int, step func(send bool, n int) error) (float64, error) {
	messages := func(count int64) func() error {
		return func() error {
			for range count {
				if err := step(send, n); err != nil {
					return err
				}
			}
			return step(!send, 1) // all messages arrived
		}
	}
	first, err := timed(messages(1), 2)
	if err != nil {
		return 0, err
	}
	count := []int64{max(int64(b.PerSize/max(first, 1)), 1)}
	tell := comm.Recv[int64]
	if send {
		tell = comm.Send[int64]
	}
	if err := tell(ctx, b.group, count, other); err != nil {
		return 0, err
	}
	took, err := timed(messages(count[0]), 1)
	return float64(count[0]) * float64(n) / float64(took), err
}

// timed returns the duration of the last of several runs of work.
func timed(work func() error, times int) (took time.Duration, err error) {
	for range times {
		begun := time.Now()
		if err := work(); err != nil {
			return 0, err
		}
		took = max(time.Since(begun), 1)
	}
	return took, nil
}

// measureCopies copies between the memory of a GPU and that of its host.
func (b *bench) measureCopies(_ context.Context, p *Path) error {
	if b.group.Rank() != p.ranks[0] {
		return nil
	}
	memory := slices.Repeat([]byte{1}, int(b.End))
	d, err := comm.NewDeviceBuffer[uint8](b.group, len(memory))
	if err != nil {
		return err
	}
	defer d.Free()
	in, err := timed(func() error { return d.CopyIn(memory) }, 5)
	if err != nil {
		return err
	}
	out, err := timed(func() error { return d.CopyOut(memory) }, 5)
	p.Forth, p.Back = float64(len(memory))/float64(in), float64(len(memory))/float64(out)
	return err
}
