package pmix

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// directories are where ranks put files for one another on this node: one for the job, in
// it one for each world, in it one for each rank. They are made when they are first told, a
// rank's own when it is told.
type directories struct {
	make func() (string, error)

	mu   sync.Mutex
	top  string
	err  error
	made bool
	// lacking are the worlds that have none, which was told.
	lacking map[string]bool
}

// of makes a world's directories for one of its ranks here, and gives the job's. Where they cannot be made that is "",
// and the first who asks gets the error.
func (d *directories) of(n *namespace, rank int) (top string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.made {
		d.made = true
		d.top, d.err = d.make()
	}
	if err = d.err; err == nil {
		if err = os.MkdirAll(n.rankDir(d.top, rank), 0o700); err == nil {
			return d.top, nil
		}
		err = fmt.Errorf("make the directory in which rank %d finds its peers on this host: %w", rank, err)
	}
	if d.lacking[n.world.Name] {
		return "", nil
	}
	if d.lacking == nil {
		d.lacking = map[string]bool{}
	}
	d.lacking[n.world.Name] = true
	return "", err
}

// hold reports whether a name is below the directories that are removed.
func (d *directories) hold(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	within, err := filepath.Rel(d.top, filepath.Clean(name))
	return d.top != "" && err == nil && within != ".." && !strings.HasPrefix(within, "../")
}

// dir is a world's directory, rankDir a rank's, below the job's.
func (n *namespace) dir(top string) string { return filepath.Join(top, n.world.Name) }

func (n *namespace) rankDir(top string, rank int) string {
	return filepath.Join(n.dir(top), strconv.Itoa(rank))
}
