package pmix

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// directories are where ranks put files for one another on this node: one for the job, in
// it one for each world, in it one for each rank. They are made when they are first told, a
// rank's own when it is told.
type directories struct {
	make func() (string, error)

	mu     sync.Mutex
	top    string
	err    error
	made   bool
	worlds map[string]worldDirs
}

// worldDirs are a world's; those of ranks by rank.
type worldDirs struct {
	top, world string
	rank       map[int]string
}

// of are a world's directories for one of its ranks here. Where they cannot be made there are
// none.
func (d *directories) of(n *namespace, rank int) (worldDirs, error) {
	w, err := d.ofWorld(n)
	if w.top == "" {
		return w, err
	}
	if err := os.Mkdir(w.rank[rank], 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return worldDirs{}, fmt.Errorf("make the directory in which rank %d finds its peers on this host: %w", rank, err)
	}
	return w, nil
}

// ofWorld makes a world's when they are first asked for.
func (d *directories) ofWorld(n *namespace) (worldDirs, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w, ok := d.worlds[n.world.Name]; ok {
		return w, nil
	}
	w, err := d.makeFor(n)
	if d.worlds == nil {
		d.worlds = map[string]worldDirs{}
	}
	d.worlds[n.world.Name] = w
	return w, err
}

func (d *directories) makeFor(n *namespace) (worldDirs, error) {
	if !d.made {
		d.made = true
		d.top, d.err = d.make()
	}
	if d.err != nil {
		return worldDirs{}, d.err
	}
	w := worldDirs{top: d.top, world: filepath.Join(d.top, n.world.Name), rank: map[int]string{}}
	if err := os.Mkdir(w.world, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return worldDirs{}, fmt.Errorf("make the directory in which ranks find their peers on this host: %w", err)
	}
	for _, rank := range n.local {
		w.rank[rank] = filepath.Join(w.world, strconv.Itoa(rank))
	}
	return w, nil
}

func (w worldDirs) infos() []info {
	if w.top == "" {
		return nil
	}
	return []info{
		attr("pmix.tmpdir", w.top),
		attr("pmix.nsdir", w.world),
	}
}
