package nccllog

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Bounds of the facts of one rank.
const (
	maxNames = 64  // of network interfaces or ports
	maxText  = 400 // bytes
)

// Facts is what NCCL logged in one rank.
type Facts struct {
	Library string // "NCCL" or "RCCL", "" if unknown
	Version string // "2.30.7", "" if unknown
	Network string // "IB", "Socket", a plugin's name
	// Interfaces are the network interfaces that may carry data, Ports the ports of RDMA devices.
	Interfaces []string
	Ports      []Port
	Bootstrap  string // the interface over which ranks find each other

	// Size and Channels belong to the largest communicator.
	Size, Channels int
	Via            Via
	Used           []int // indexes of the ports or interfaces in use
	Up             bool  // a communicator exists
	Connected      bool  // and its ranks are connected
	InitSeconds    float64

	last int // the size of the communicator logged last
}

// Port is a port of an RDMA device: "mlx5_0:1", of kind "IB" or "RoCE".
type Port struct{ Name, Kind string }

// Via is a set of kinds of connections between ranks.
type Via uint16

// The kinds.
const (
	P2P Via = 1 << iota
	NVLink
	SharedMemory
	Net
	GDR   // Net to GPU memory
	NoGDR // Net through host memory
	NVLS  // NVLink SHARP
)

// Has reports whether the set has all of these kinds.
func (v Via) Has(kinds Via) bool { return v&kinds == kinds }

// update adds the facts of a line, and reports whether a summary may change.
func (f *Facts) update(l *Line) (news bool) {
	text := l.Text
	switch {
	case strings.HasPrefix(text, "NCCL version "), strings.HasPrefix(text, "RCCL version "):
		return f.updateVersion(text)
	case strings.HasPrefix(text, "Channel "):
		f.updateChannel(text)
	case strings.HasPrefix(text, "Connected all "), strings.HasPrefix(text, "Connected NVLS tree"):
		if strings.Contains(text, "NVLS") {
			f.Via |= NVLS | NVLink
		}
		news, f.Connected = !f.Connected, true
	case strings.HasPrefix(text, "Using network "):
		network := clip(text[len("Using network "):])
		news, f.Network = network != f.Network, network
	case strings.HasPrefix(text, "Bootstrap"):
		if _, names, ok := strings.Cut(text, "Using "); ok {
			f.Bootstrap, _, _ = strings.Cut(clip(strings.TrimSpace(names)), ":")
		}
	case strings.HasPrefix(text, "NET/"):
		return f.updateNet(text)
	case strings.HasSuffix(text, "Init COMPLETE"):
		return f.updateUp(text)
	default:
		f.updateOther(text)
	}
	return news
}

func (f *Facts) updateVersion(text string) bool {
	f.Library = text[:4]
	fields := strings.Fields(strings.TrimLeft(text[len("NCCL version "):], ": "))
	if len(fields) == 0 {
		return false
	}
	version, _, _ := strings.Cut(clip(fields[0]), "+") // the CUDA version it was built for
	version, _, _ = strings.Cut(version, "-")          // RCCL's branch
	news := version != f.Version
	f.Version = version
	return news
}

// updateChannel reads "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA".
func (f *Facts) updateChannel(text string) {
	_, via, ok := strings.Cut(text, " via ")
	if !ok {
		return
	}
	via, _, _ = strings.Cut(via, " comm ") // of RCCL
	kind, rest, _ := strings.Cut(via, "/")
	switch kind {
	case "P2P":
		f.Via |= P2P
		if strings.HasPrefix(rest, "MNNVL") {
			f.Via |= NVLink
		}
	case "SHM":
		f.Via |= SharedMemory
	case "NET":
		f.updateNetChannel(rest)
	}
}

// updateNetChannel reads "IB/0/GDRDMA", "IB/0(3)/GDRDMA/Shared", "AWS Libfabric/1".
func (f *Facts) updateNetChannel(text string) {
	f.Via |= Net
	if strings.Contains(text, "/GDRDMA") {
		f.Via |= GDR
	} else {
		f.Via |= NoGDR
	}
	_, number, _ := strings.Cut(text, "/")
	if n, err := strconv.Atoi(leading(number)); err == nil {
		f.use(n)
	}
}

// leading returns the digits at the beginning: the 0 of "0(3)".
func leading(text string) string {
	end := 0
	for end < len(text) && isDigit(text[end]) {
		end++
	}
	return text[:end]
}

func (f *Facts) use(n int) {
	if len(f.Used) < maxNames && !slices.Contains(f.Used, n) {
		f.Used = append(f.Used, n)
	}
}

// updateNet reads lines like "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>".
func (f *Facts) updateNet(text string) bool {
	name, list, ok := strings.Cut(text, " : Using ")
	if !ok {
		return false
	}
	list, _, _ = strings.Cut(list, ";")
	switch name {
	case "NET/Socket":
		f.Interfaces = nil // not [:0]: Collector.Facts shares it
		for item := range numberedItems(list) {
			iface, _, _ := strings.Cut(item, ":")
			f.Interfaces = append(f.Interfaces, iface)
		}
		return true
	case "NET/IB":
		f.Ports = nil
		for item := range numberedItems(list) {
			port, kind, _ := strings.Cut(item, "/")
			kind, _, _ = strings.Cut(kind, "/") // "/SHARP"
			f.Ports = append(f.Ports, Port{port, kind})
		}
	}
	return false
}

// numberedItems yields the first maxNames items of "[0]eth0:10.0.0.1<0> [1]eth1:10.0.1.1<0>".
func numberedItems(list string) iter.Seq[string] {
	return func(yield func(string) bool) {
		n := 0
		for _, field := range strings.Fields(list) {
			number, item, ok := strings.Cut(strings.TrimPrefix(field, "["), "]")
			if _, err := strconv.Atoi(number); !ok || err != nil || item == "" {
				continue
			}
			if n++; n > maxNames || !yield(clip(item)) {
				return
			}
		}
	}
}

// updateUp reads "ncclCommInitRank comm 0x55 rank 0 nranks 8 cudaDev 0 … - Init COMPLETE".
func (f *Facts) updateUp(text string) bool {
	size := after(text, " nranks ")
	f.Size = max(f.Size, size)
	news := !f.Up || size == 1 && !f.Connected
	f.Up = true
	if size == 1 && f.Size == 1 { // it has no peers
		f.Connected = true
	}
	return news
}

// updateOther reads lines without a fixed beginning.
func (f *Facts) updateOther(text string) {
	switch {
	case strings.HasPrefix(text, "comm ") && strings.Contains(text, " nNodes "):
		f.last = after(text, " nRanks ")
		f.Size = max(f.Size, f.last)
		if after(text, " MNNVL ") == 1 {
			f.Via |= NVLink
		}
	case strings.Contains(text, " coll channels, "):
		if n, err := strconv.Atoi(strings.TrimSpace(text[:strings.IndexByte(text, ' ')])); err == nil &&
			(f.last >= f.Size || f.Channels == 0) {
			f.Channels = n
		}
	// Only NVSwitch has NVLS.
	case strings.HasPrefix(text, "NVLS multicast support is available"), strings.Contains(text, " NVL["):
		f.Via |= NVLink
	case strings.HasPrefix(text, "Init timings"):
		if _, total, ok := strings.Cut(text, " total "); ok {
			seconds, _, _ := strings.Cut(total, " ")
			if s, err := strconv.ParseFloat(seconds, 64); err == nil && s <= math.MaxFloat64 { // JSON has neither Inf nor NaN
				f.InitSeconds = max(f.InitSeconds, s)
			}
		}
	}
}

// after returns the number that follows a text, or 0.
func after(text, what string) int {
	_, rest, _ := strings.Cut(text, what)
	n, _ := strconv.Atoi(cmp.Or(leading(rest), "0"))
	return n
}

func clip(text string) string { return strings.Clone(text[:min(len(text), maxText)]) }
