package agent

import (
	"errors"
	"fmt"
	"strings"

	"gorun/launcher/internal/wire"
	"gorun/rendezvous/world"
)

// Limits of what a head may request.
const (
	maxWindow   = 64 << 20 // output in flight, in bytes
	maxTargets  = 4096     // addresses to dial, in all Probe frames
	maxNames    = 64       // names in a Probe frame
	maxQueries  = 64       // concurrent queries about ranks
	maxSignals  = 1024     // recorded while ranks are being started
	maxWorlds   = 1 << 16  // that have not ended
	maxWorldLen = 63       // length of a world's name in bytes
)

// checkProbe limits how much of a network a head can scan through this node.
func (a *Agent) checkProbe(p *wire.Probe) error {
	a.probed += len(p.Targets)
	if a.probed > maxTargets || len(p.Names) > maxNames {
		return errors.New("agent: the launcher requests more dials than the limit")
	}
	return nil
}

// checkStart refuses inconsistent Start frames; later code relies on it.
func (a *Agent) checkStart(s *wire.Start) error {
	if len(s.Apps) == 0 || s.Window <= 0 || s.Window > maxWindow || s.Attempt < 0 {
		return fmt.Errorf("the launcher requests %d programs, %d bytes of output in flight, attempt %d",
			len(s.Apps), s.Window, s.Attempt)
	}
	for i, app := range s.Apps {
		if len(app.Argv) == 0 || app.Build && (i >= len(a.programs) || a.programs[i].Build == nil) {
			return fmt.Errorf("the launcher requests program %q without arguments, or a build that is not of a Go package",
				app.Path)
		}
	}
	if err := checkWorlds(s.MPI.Worlds); err != nil {
		return err
	}
	return checkRows(s.Ranks, len(s.Apps), s.Logs)
}

// checkRows refuses duplicate ranks and invalid indices.
func checkRows(rows []wire.Row, apps int, logs *wire.Logs) error {
	seen := make(map[int]bool, len(rows))
	for i := range rows {
		r := &rows[i]
		switch {
		case r.Rank < 0 || r.LocalRank < 0 || seen[r.Rank]:
			return fmt.Errorf("the launcher requests rank %d, local rank %d, which is negative or a duplicate",
				r.Rank, r.LocalRank)
		case r.App < 0 || r.App >= apps:
			return fmt.Errorf("the launcher assigns rank %d to program %d of %d", r.Rank, r.App, apps)
		case r.Argv != nil && len(r.Argv) == 0:
			return fmt.Errorf("the launcher requests a program without arguments for rank %d", r.Rank)
		case logs != nil && (r.LocalRank >= len(logs.Redirect) || r.LocalRank >= len(logs.Tee)):
			return fmt.Errorf("the launcher names no log files for local rank %d", r.LocalRank)
		}
		seen[r.Rank] = true
	}
	return nil
}

// checkWorlds refuses invalid names and indices.
func checkWorlds(worlds []world.World) error {
	for i := range worlds {
		w := &worlds[i]
		if len(w.Name) > maxWorldLen || strings.Trim(w.Name, worldLetters) != "" {
			return fmt.Errorf("the launcher gives a world the invalid name %.80q", w.Name)
		}
		for _, r := range w.Ranks {
			if r.Job < 0 || r.Host < 0 || r.Host >= len(w.Hosts) || r.App < 0 || r.App >= len(w.Apps) {
				return fmt.Errorf("the launcher places rank %d of world %s on host %d of %d, with program %d of %d",
					r.Job, w.Name, r.Host, len(w.Hosts), r.App, len(w.Apps))
			}
		}
	}
	return nil
}

// worldLetters are the valid characters of a world's name.
const worldLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-"

// answerQuery runs do on another goroutine; do must call done when the query is answered. With too many pending
// queries it ignores more, and returns false: a rank with a dead file system may block its inspection, however long a
// user watches the job.
func (j *job) answerQuery(do func(done func())) bool {
	done := func() { j.queries.Add(-1) }
	if j.queries.Add(1) > maxQueries {
		done()
		return false
	}
	go do(done)
	return true
}
