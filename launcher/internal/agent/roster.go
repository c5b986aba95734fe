package agent

import (
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// roster is the ranks of this node. It never changes: one with more ranks takes its place.
type roster struct {
	ranks map[int]*rank
	rows  []wire.Row
}

// enrol takes up ranks of some programs that are going to be started.
func (j *job) addRanks(rows []wire.Row, apps []spec.App) {
	var next roster
	if now := j.roster.Load(); now != nil {
		next.ranks, next.rows = maps.Clone(now.ranks), slices.Concat(now.rows, rows)
	} else {
		next.ranks, next.rows = make(map[int]*rank, len(rows)), rows
	}
	for _, row := range rows {
		next.ranks[row.Rank] = &rank{row: row, dir: apps[row.App].Dir}
	}
	j.roster.Store(&next)
}

// strike takes ranks off the roster for which that is due.
func (j *job) removeRanks(due func(id int, r *rank) bool) (struck []*rank) {
	now, next := j.roster.Load(), roster{ranks: map[int]*rank{}}
	for _, row := range now.rows {
		if r := now.ranks[row.Rank]; due(row.Rank, r) {
			struck = append(struck, r)
			continue
		}
		next.rows, next.ranks[row.Rank] = append(next.rows, row), now.ranks[row.Rank]
	}
	j.roster.Store(&next)
	return struck
}

// strikeOff forgets those of some ranks that could not be started, with the streams that
// nobody will close.
func (j *job) removeUnstarted(rows []wire.Row) {
	struck := j.removeRanks(func(id int, r *rank) bool {
		return r.pid.Load() == 0 && slices.ContainsFunc(rows, func(row wire.Row) bool { return row.Rank == id })
	})
	for _, r := range struck {
		j.open.add(-int(r.streams.Load()))
	}
}

// rank is one of this node's by its number; nil for another.
func (j *job) rank(id int) *rank { return j.roster.Load().ranks[id] }

// rows are what was decided about this node's ranks.
func (j *job) rows() []wire.Row { return j.roster.Load().rows }

func (s *sink) rank(id int) *rank { return (*job)(s).rank(id) }

// tee is the file that a rank's stream goes to as well, nil for none. Those that a rank
// has spawned have no files.
func (s *sink) tee(id, stream int) io.WriteCloser {
	row := &s.rank(id).row
	if row.Spawned {
		return nil
	}
	return s.logs.Tee(row.LocalRank, stream)
}

// countdown is a number that one can wait to be zero.
type countdown struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // somebody waits; closed when n is 0
}

func (c *countdown) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
	if c.n == 0 && c.zero != nil {
		close(c.zero)
		c.zero = nil
	}
}

// await waits so long at most, and reports whether it was zero.
func (c *countdown) await(limit time.Duration) bool {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return true
	}
	if c.zero == nil {
		c.zero = make(chan struct{})
	}
	zero := c.zero
	c.mu.Unlock()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-zero:
		return true
	case <-t.C:
		return false
	}
}
