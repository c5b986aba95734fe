package main

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// slower is how many times as long as usual in fast moments a probe may take before what was measured beside it counts
	// as measured on a slow machine.
	slower = 1.5
	// fastest is the share of the readings that fast moments are sure to have. The least of all readings is no measure:
	// now and then a flag takes half its usual time.
	fastest = 0.05
	// probeTrips is how many round trips a reading is the mean of, behind a few that bring the partner up.
	probeTrips, risingTrips = 400, 20
)

// probe tells whether the machine is slow for a while, by the time that a flag takes from one CPU to another and back.
// Virtual machines are, for seconds: when the host moves their CPUs apart a flag takes five times as long.
type probe struct {
	readings []time.Duration // sorted
	patience time.Duration   // how long fast moments may still be waited for, and slow ones made good
	ask      chan int32
	ping     atomic.Int32
	_        [128]byte // the two flags in cache lines of their own
	pong     atomic.Int32
	last     int32
}

// newProbe looks at the machine for a moment. In all, patience is spent on waiting for fast moments.
func newProbe(patience time.Duration) *probe {
	p := &probe{ask: make(chan int32), patience: patience}
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
func (p *probe) take() time.Duration {
	now := time.Duration(1)
	if runtime.NumCPU() > 1 {
		now = p.trip()
	}
	i, _ := slices.BinarySearch(p.readings, now)
	p.readings = slices.Insert(p.readings, i, now)
	return now
}

func (p *probe) trip() time.Duration {
	first := p.last + 1
	p.last += risingTrips + probeTrips
	p.ask <- p.last
	var begin time.Time
	for i := first; i <= p.last; i++ {
		if i == first+risingTrips {
			begin = time.Now()
		}
		p.ping.Store(i)
		for p.pong.Load() != i {
		}
	}
	return time.Since(begin) / probeTrips
}

// usual is a reading in the run's fast moments.
func (p *probe) usual() time.Duration { return p.readings[int(fastest*float64(len(p.readings)))] }

// fast reports whether the machine was about as fast as it ever was in this run for a while.
func (p *probe) fast(reading time.Duration) bool {
	return float64(reading) <= slower*float64(p.usual())
}

// awaitFast probes until the machine is fast or patience is at its end.
func (p *probe) awaitFast() time.Duration {
	for {
		begin := time.Now()
		now := p.take()
		if p.fast(now) || p.patience <= 0 {
			return now
		}
		<-time.After(20 * time.Millisecond)
		p.patience -= time.Since(begin)
	}
}
