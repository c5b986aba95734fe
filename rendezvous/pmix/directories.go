package pmix

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// directories are where ranks put files for one another on this node: one for the job, in
// it one for each world, in it one for each rank. They are made when they are first told.
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

// of are a world's directories, made when they are first asked for. Where that fails there
// are none.
func (d *directories) of(n *namespace) (worldDirs, error) {
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
	for _, rank := range n.local {
		dir := filepath.Join(w.world, strconv.Itoa(rank))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return worldDirs{}, fmt.Errorf("make the directory in which rank %d finds its peers on this host: %w", rank, err)
		}
		w.rank[rank] = dir
	}
	return w, nil
}

func (w worldDirs) infos() []info {
	if w.top == "" {
		return nil
	}
	return []info{
		{key: "pmix.tmpdir", value: stringValue(w.top)},
		{key: "pmix.nsdir", value: stringValue(w.world)},
	}
}
