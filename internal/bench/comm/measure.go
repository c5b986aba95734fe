package main

import (
	"fmt"
	"log"
	"slices"
	"time"
)

// scene is where rows are measured: the ranks of all peers, and what is beside them.
type scene struct {
	ranks    int
	each     int       // ranks a host of two; 0: all on one host
	stranger *stranger // nil: nobody
	sessions map[string]*session
}

func (s scene) String() string {
	switch {
	case s.each > 0:
		return fmt.Sprintf("2 hosts of %d ranks", s.each)
	case s.stranger != nil:
		return fmt.Sprintf("%d ranks and a stranger", s.ranks)
	}
	return fmt.Sprintf("%d ranks", s.ranks)
}

// row is one operation with one size on so many ranks, and what everybody took for it.
type row struct {
	Ranks     int                 `json:"ranks"`
	Each      int                 `json:"ranks_a_host,omitempty"` // of two; 0: all on one host
	Stranger  bool                `json:"stranger,omitempty"`     // one CPU is busy with something else
	Operation string              `json:"operation"`
	Bytes     int                 `json:"bytes"`
	Figures   map[string]*figures `json:"figures"`
}

// figures are one peer's batches of a row.
type figures struct {
	Calls       int      `json:"calls"` // in a batch
	Samples     []sample `json:"samples"`
	Writing     float64  `json:"writing_us"`  // what writing the input takes for a call, already taken off
	Allocations float64  `json:"allocations"` // for a call, in the batch with fewest

	probe *probe
}

// sample is one batch.
type sample struct {
	Micros float64 `json:"us"` // for a call, the slowest rank's
	Before reading `json:"before"`
	After  reading `json:"after"`
}

// good returns the times of the batches that count, sorted: those between fast probes, or all where there are none.
func (f *figures) good() []float64 {
	var good, all []float64
	for _, s := range f.Samples {
		all = append(all, s.Micros)
		if f.probe.fast(s.Before) && f.probe.fast(s.After) {
			good = append(good, s.Micros)
		}
	}
	if len(good) == 0 {
		good = all
	}
	slices.Sort(good)
	return good
}

// min and median are in microseconds, 0 where the peer has no figure.
func (f *figures) min() float64 {
	if f == nil || len(f.Samples) == 0 {
		return 0
	}
	return f.good()[0]
}

func (f *figures) median() float64 {
	if f == nil || len(f.Samples) == 0 {
		return 0
	}
	good := f.good()
	return good[len(good)/2]
}

// fast counts the batches between fast probes.
func (f *figures) fast() (n int) {
	for _, s := range f.Samples {
		if f.probe.fast(s.Before) && f.probe.fast(s.After) {
			n++
		}
	}
	return n
}

// fast is the number of batches between fast probes of the peer that has fewest.
func (r *row) fast() int {
	least := -1
	for _, f := range r.Figures {
		if least < 0 || f.fast() < least {
			least = f.fast()
		}
	}
	return max(least, 0)
}

// best is the rival that is fastest by the given figure, 0 where there is none.
func (r *row) best(of func(*figures) float64) (least float64) {
	for _, name := range rivals {
		if v := of(r.Figures[name]); v > 0 && (least == 0 || v < least) {
			least = v
		}
	}
	return least
}

// measureOneHost measures all operations and sizes with one number of ranks on this host.
func measureOneHost(o options, c *crew, p *probe, s scene) ([]*row, error) {
	bytes := max(slices.Max(append(o.sizes, 0)), 4096)
	s, err := c.start(s, func(name string) []program { return single(c.argv(name, s.ranks, bytes)) })
	if err != nil {
		return nil, err
	}
	defer closeAll(s.sessions)
	return measureAll(o, c, p, s, o.operations, o.sizes)
}

// measureAll measures those operations and sizes.
func measureAll(o options, c *crew, p *probe, s scene, operations []string, sizes []int) (rows []*row, err error) {
	for _, operation := range operations {
		own := sizes
		if operation == "barrier" {
			own = []int{0}
		}
		for _, size := range own {
			r := s.row(operation, size)
			if err := r.measure(o, c, p, s); err != nil {
				return nil, err
			}
			rows = append(rows, r)
		}
		log.Printf("%s: %s is done", s, operation)
	}
	return again(o, c, p, s, rows)
}

func (s scene) row(operation string, size int) *row {
	return &row{Ranks: s.ranks, Each: s.each, Stranger: s.stranger != nil, Operation: operation, Bytes: size}
}

// again measures the rows once more that fell into a slow spell.
func again(o options, c *crew, p *probe, s scene, rows []*row) ([]*row, error) {
	for i, r := range rows {
		if r.fast() >= enough(o.rounds) || p.patience <= 0 {
			continue
		}
		begin := time.Now()
		second := s.row(r.Operation, r.Bytes)
		if err := second.measure(o, c, p, s); err != nil {
			return nil, err
		}
		p.patience -= time.Since(begin)
		if second.fast() > r.fast() {
			rows[i] = second
		}
	}
	return rows, nil
}

// enough is how many batches beside a fast probe a row needs.
func enough(rounds int) int { return (rounds + 1) / 2 }

// contender is one who takes part in a row.
type contender struct {
	name    string
	session *session
	beside  *stranger
	task    task
}

func (r *row) contenders(s scene) (all []contender) {
	for _, name := range append([]string{ours, raw}, allPeers...) {
		if one := s.sessions[name]; one != nil {
			all = append(all, contender{name, one, s.stranger, task{operation: r.Operation, bytes: r.Bytes}})
		}
	}
	if s.each == 0 && (r.Operation == "allreduce" || r.Operation == "reducescatter") {
		all = append(all, contender{allocated, s.sessions[ours], s.stranger, task{operation: r.Operation, bytes: r.Bytes, shared: true}})
	}
	return all
}

// measure interleaves everybody's batches until all have enough that count, or twice as many rounds are over. A peer that fails is out from then
// on; comm may not.
func (r *row) measure(o options, c *crew, p *probe, s scene) error {
	r.Figures = map[string]*figures{}
	sessions, all := s.sessions, r.contenders(s)
	lose := func(peer contender, err error) error {
		if peer.session == sessions[ours] {
			return err
		}
		log.Print(err)
		c.notes = append(c.notes, "left out from there on: "+err.Error())
		sessions[peer.name].close()
		delete(sessions, peer.name)
		delete(r.Figures, peer.name)
		all = slices.DeleteFunc(all, func(other contender) bool { return other.name == peer.name })
		return nil
	}
	for _, peer := range slices.Clone(all) {
		calls, err := calibrate(peer, o.batch)
		if err != nil {
			if err := lose(peer, err); err != nil {
				return err
			}
			continue
		}
		r.Figures[peer.name] = &figures{Calls: calls, probe: p}
	}
	for round := 0; round < o.rounds || round < 2*o.rounds && r.fast() < o.rounds && p.patience > 0; round++ {
		begin, before := time.Now(), p.awaitFast()
		for turn := range len(all) {
			peer := all[(turn+round)%len(all)]
			after, err := r.sample(peer, p, before)
			if err != nil {
				if err := lose(peer, err); err != nil {
					return err
				}
				break
			}
			before = after
		}
		if round >= o.rounds {
			p.patience -= time.Since(begin)
		}
	}
	for _, f := range r.Figures {
		f.takeWritingOff()
	}
	return nil
}

// sample adds one batch of a peer, with a probe behind it.
func (r *row) sample(peer contender, p *probe, before reading) (after reading, err error) {
	f := r.Figures[peer.name]
	t := peer.task
	t.calls, t.warm = f.Calls, f.Calls/10+1
	a, err := peer.run(t)
	if err != nil {
		return reading{}, err
	}
	after = p.take()
	f.Samples = append(f.Samples, sample{Micros: perCall(a.total, f.Calls), Before: before, After: after})
	writing, allocations := perCall(a.writing, f.Calls), float64(a.allocations)/float64(f.Calls)
	if len(f.Samples) == 1 {
		f.Writing, f.Allocations = writing, allocations
	}
	f.Writing, f.Allocations = min(f.Writing, writing), min(f.Allocations, allocations)
	return after, nil
}

func perCall(d time.Duration, calls int) float64 { return d.Seconds() * 1e6 / float64(calls) }

// takeWritingOff leaves the call itself.
func (f *figures) takeWritingOff() {
	for i := range f.Samples {
		f.Samples[i].Micros = max(f.Samples[i].Micros-f.Writing, 0.001)
	}
}

// calibrate finds how many calls make a batch of about the given length. It also warms everything up.
func calibrate(peer contender, length time.Duration) (calls int, err error) {
	const most = 100_000
	calls = 1
	for range 6 {
		t := peer.task
		t.calls, t.warm = calls, 1
		a, err := peer.run(t)
		if err != nil {
			return 0, fmt.Errorf("%d ranks: %w", len(peer.session.ranks), err)
		}
		fit := int(float64(calls) * float64(length) / float64(max(a.total, 1)))
		if done := a.total >= length/2; done || calls == most {
			return max(min(fit, most), 1), nil
		}
		calls = max(min(fit, 16*calls, most), calls)
	}
	return calls, nil
}
