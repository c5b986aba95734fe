package agent

import (
	"io"
	"maps"
	"slices"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// roster is this node's ranks. It is immutable; job.roster is replaced as a whole.
type roster struct {
	ranks map[int]*rank
	rows  []wire.Row
}

// addRanks adds ranks that are about to be started.
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

// removeRanks removes the ranks for which remove is true, and returns them.
func (j *job) removeRanks(remove func(id int, r *rank) bool) (removed []*rank) {
	now, next := j.roster.Load(), roster{ranks: map[int]*rank{}}
	for _, row := range now.rows {
		if r := now.ranks[row.Rank]; remove(row.Rank, r) {
			removed = append(removed, r)
			continue
		}
		next.rows, next.ranks[row.Rank] = append(next.rows, row), now.ranks[row.Rank]
	}
	j.roster.Store(&next)
	return removed
}

// removeUnstarted removes those of rows that could not be started, and discounts their streams.
func (j *job) removeUnstarted(rows []wire.Row) {
	removed := j.removeRanks(func(id int, r *rank) bool {
		return r.pid.Load() == 0 && slices.ContainsFunc(rows, func(row wire.Row) bool { return row.Rank == id })
	})
	for _, r := range removed {
		j.open.add(-int(r.streams.Load()))
	}
}

// rank returns a rank of this node; nil: it is not here.
func (j *job) rank(id int) *rank { return j.roster.Load().ranks[id] }

// rows returns the head's description of this node's ranks.
func (j *job) rows() []wire.Row { return j.roster.Load().rows }

// tee returns the file that a rank's output is copied to; nil: none. Spawned ranks have no files.
func (s sink) tee(id, stream int) io.WriteCloser {
	row := &s.rank(id).row
	if row.Spawned {
		return nil
	}
	return s.logs.Tee(row.LocalRank, stream)
}
