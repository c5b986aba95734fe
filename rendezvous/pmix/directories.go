package pmix

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// directories are where the ranks of this node put files for each other: one directory for the job, in it one for each
// world, in it one for each rank. They are made when a rank asks for them.
type directories struct {
	make func() (string, error)

	mu     sync.Mutex
	top    string
	err    error
	made   bool
	failed map[string]bool // worlds for which an error was returned
}

// makeFor makes the directories of a rank and returns the job's. If that fails it returns "", and the error only once
// for each world.
func (d *directories) makeFor(n *namespace, rank int) (top string, err error) {
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
		err = fmt.Errorf("make the directory through which rank %d finds its peers on this host: %w", rank, err)
	}
	if d.failed[n.Name] {
		return "", nil
	}
	d.failed[n.Name] = true
	return "", err
}

// contains reports whether a name is below the job's directory, which is removed at its end.
func (d *directories) contains(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	within, err := filepath.Rel(d.top, filepath.Clean(name))
	return d.top != "" && err == nil && within != ".." && !strings.HasPrefix(within, "../")
}

// dir returns the directory of a world, and rankDir that of a rank, below the job's.
func (n *namespace) dir(top string) string { return filepath.Join(top, n.Name) }

func (n *namespace) rankDir(top string, rank int) string {
	return filepath.Join(n.dir(top), strconv.Itoa(rank))
}
