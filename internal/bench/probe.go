package main

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// slowFactor is the factor over the usual reading at which the machine counts as slow.
	slowFactor = 1.5
	// usualQuantile is the quantile of the readings that counts as usual. The minimum does not: now and then a flag
	// takes half its usual time.
	usualQuantile = 0.05
	// A reading is the mean of probeTrips round trips, after warmUpTrips.
	probeTrips, warmUpTrips = 400, 20
)

// probe detects when the machine is slow, by the time that a flag takes from one CPU to another and back. Virtual
// machines are slow for seconds at a time: when their host moves their CPUs apart, a flag takes five times as long.
type probe struct {
	readings []time.Duration // sorted
	patience time.Duration   // how much longer to wait for fast moments
	rounds   chan int32      // the flag's last value of each reading
	ping     atomic.Int32
	_        [128]byte // keeps the flags in different cache lines
	pong     atomic.Int32
	last     int32
}

// newProbe takes the first readings. The probe spends patience in all on waiting for fast moments.
func newProbe(patience time.Duration) *probe {
	p := &probe{rounds: make(chan int32), patience: patience}
	go p.echo()
	for range 50 {
		p.read()
	}
	return p
}

// echo sends the flag back from another thread.
func (p *probe) echo() {
	runtime.LockOSThread()
	for until := range p.rounds {
		p.pong.Store(p.ping.Load())
		for seen := int32(0); seen < until; {
			if seen = p.ping.Load(); seen != p.pong.Load() {
				p.pong.Store(seen)
			}
		}
	}
}

// read takes a reading.
func (p *probe) read() time.Duration {
	now := time.Duration(1)
	if runtime.NumCPU() > 1 {
		now = p.roundTrip()
	}
	i, _ := slices.BinarySearch(p.readings, now)
	p.readings = slices.Insert(p.readings, i, now)
	return now
}

func (p *probe) roundTrip() time.Duration {
	first := p.last + 1
	p.last += warmUpTrips + probeTrips
	p.rounds <- p.last
	var begin time.Time
	for i := first; i <= p.last; i++ {
		if i == first+warmUpTrips {
			begin = time.Now()
		}
		p.ping.Store(i)
		for p.pong.Load() != i {
		}
	}
	return time.Since(begin) / probeTrips
}

// usual returns a reading that is typical of fast moments.
func (p *probe) usual() time.Duration { return p.readings[int(usualQuantile*float64(len(p.readings)))] }

// fast reports whether a reading is about as fast as usual.
func (p *probe) fast(reading time.Duration) bool {
	return float64(reading) <= slowFactor*float64(p.usual())
}

// awaitFast reads until the machine is fast or patience is used up.
func (p *probe) awaitFast() time.Duration {
	for {
		begin := time.Now()
		now := p.read()
		if p.fast(now) || p.patience <= 0 {
			return now
		}
		<-time.After(20 * time.Millisecond)
		p.patience -= time.Since(begin)
	}
}
