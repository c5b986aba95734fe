package main

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// reading is what a probe of the machine gave: how long a copy of memory took that no cache holds, and a flag's way from one CPU to another and back.
type reading struct {
	Memory time.Duration `json:"memory_ns"`
	Flag   time.Duration `json:"flag_ns"`
}

const (
	// slower is how many times as long as usual in fast moments a probe may take before what was measured beside it counts as measured on a slow
	// machine.
	slower = 1.5
	// fastest is the share of the readings that fast moments are sure to have. The least of all readings is no measure: now and then a
	// flag takes half its usual time.
	fastest = 0.05
)

const (
	arenaBytes = 128 << 20 // more than caches hold
	probeBytes = 4 << 20
	probeTrips = 400
)

// probe tells whether the machine is slow for a while. Virtual machines are, for seconds: when the host moves their CPUs apart, so that a flag takes
// five times as long from one to the other, or when neighbours use the memory.
type probe struct {
	arena     []byte
	at        int
	memories  []time.Duration // all readings, sorted
	flags     []time.Duration
	known     time.Duration // what a flag takes in fast moments, where the user knows it
	patience  time.Duration // how long fast moments may still be waited for, and slow ones made good
	ask       chan int32
	ping      atomic.Int32
	_         [128]byte // the two flags in cache lines of their own
	pong      atomic.Int32
	lastTrips int32
}

// newProbe looks at the machine for a moment. In all, patience is spent on waiting for fast moments; arena is the memory that is copied in.
func newProbe(patience time.Duration, arena int) *probe {
	p := &probe{arena: make([]byte, arena), ask: make(chan int32), patience: patience}
	for i := range p.arena {
		p.arena[i] = 1
	}
	go p.partner()
	for range 50 {
		p.take()
	}
	return p
}

// partner answers on another thread.
func (p *probe) partner() {
	runtime.LockOSThread()
	for until := range p.ask {
		p.pong.Store(p.ping.Load())
		for seen := int32(0); seen < until; {
			if seen = p.ping.Load(); seen != p.pong.Load() {
				p.pong.Store(seen)
			}
		}
	}
}

// take probes the machine.
func (p *probe) take() reading {
	now := p.measure()
	p.memories, p.flags = inserted(p.memories, now.Memory), inserted(p.flags, now.Flag)
	return now
}

func inserted(sorted []time.Duration, d time.Duration) []time.Duration {
	at, _ := slices.BinarySearch(sorted, d)
	return slices.Insert(sorted, at, d)
}

// usual is what a probe gives in the run's fast moments.
func (p *probe) usual() reading {
	at := int(fastest * float64(len(p.flags)))
	flag := p.flags[at]
	if p.known > 0 {
		flag = p.known
	}
	return reading{p.memories[at], flag}
}

// fast reports whether the machine was about as fast as it ever was in this run for a while.
func (p *probe) fast(r reading) bool {
	usual := p.usual()
	return float64(r.Memory) <= slower*float64(usual.Memory) && float64(r.Flag) <= slower*float64(usual.Flag)
}

// awaitFast probes until the machine is fast or patience is at its end.
func (p *probe) awaitFast() reading {
	for {
		begin := time.Now()
		now := p.take()
		if p.fast(now) || p.patience <= 0 {
			return now
		}
		time.Sleep(20 * time.Millisecond)
		p.patience -= time.Since(begin)
	}
}

func (p *probe) measure() reading {
	half := len(p.arena) / 2
	p.at = (p.at + probeBytes) % half
	begin := time.Now()
	copy(p.arena[half+p.at:half+p.at+probeBytes], p.arena[p.at:])
	now := reading{Memory: time.Since(begin)}
	if runtime.NumCPU() > 1 {
		now.Flag = p.trip()
	}
	return now
}

// trip is the time of a round trip, the mean of some behind a few that bring the partner up.
func (p *probe) trip() time.Duration {
	const rising = 20
	first := p.lastTrips + 1
	p.lastTrips += rising + probeTrips
	p.ask <- p.lastTrips
	var begin time.Time
	for i := first; i <= p.lastTrips; i++ {
		if i == first+rising {
			begin = time.Now()
		}
		p.ping.Store(i)
		for p.pong.Load() != i {
		}
	}
	return time.Since(begin) / probeTrips
}

// share is how many of the probes found the machine fast, by the flag.
func (p *probe) share() float64 {
	within, _ := slices.BinarySearch(p.flags, time.Duration(slower*float64(p.usual().Flag)))
	return float64(within) / float64(len(p.flags))
}
