package bootstrap

import (
	"context"
	_ "embed"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"gorun/launcher/internal/reach/remote"
)

//go:embed copy.sh
var copyScript string

// JobDir is a directory on a host with the files of a bundle.
type JobDir struct {
	// Path is the directory, with mode 0700 and an unpredictable name.
	Path string
	// PID is the process on the host that owns the directory. It removes the directory on SIGTERM, and has its name on its
	// command line.
	PID    int
	bundle *Bundle
	keeper *Stream
}

// Copy copies a bundle into a new directory on the host: in the first of $TMPDIR, /tmp, the user's cache and /dev/shm
// that has room and allows execution. A process on the host removes the directory after [JobDir.Remove], or when the
// connection ends. ctx limits the copy only, limit how long the host waits for the files. Errors are *remote.Error.
func Copy(ctx context.Context, host remote.Host, b *Bundle, limit time.Duration) (*JobDir, error) {
	c := &bundleCopy{session: newSession(ctx, host, limit), bundle: b}
	line := c.fill(copyScript, &variables{}, "@BYTES@", strconv.FormatInt(b.size, 10), "@ROOM@",
		strconv.FormatInt(b.room(), 10), "@LAST@", lastName)
	if err := c.run(ctx, line, c.handle); err != nil {
		return nil, err
	}
	c.report(remote.Progress{Step: remote.StepCopy, Sent: b.size, Total: b.size, Running: true})
	return &JobDir{Path: c.dir, PID: c.pid, bundle: b, keeper: c.stream()}, nil
}

// PathOf returns the path on the host of a file that was copied: a path given to --copy, or one below it.
func (d *JobDir) PathOf(name string) (string, bool) {
	in, ok := d.bundle.PathOf(name)
	return path.Join(d.Path, in), ok
}

// Remove removes the directory with its content. After ctx ends, the host goes on with it and Remove returns.
func (d *JobDir) Remove(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { d.keeper.Close() })
	defer stop()
	if err := d.keeper.CloseWrite(); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, d.keeper.rest)
	d.keeper.Wait() // its exit code has no meaning
	return context.Cause(ctx)
}

// bundleCopy is one call of Copy.
type bundleCopy struct {
	*session
	bundle *Bundle
	dir    string
	pid    int
}

func (c *bundleCopy) handle(word, text string) (done bool, err error) {
	switch word {
	case "need":
		return false, c.sendArchive()
	case "landed":
		return true, c.parseLanded(text)
	}
	return false, c.fail(remote.StepCopy, "cannot copy the files of --copy: "+text, nil)
}

// parseLanded parses the process id and the directory. It trusts only a directory of the name that was asked for.
func (c *bundleCopy) parseLanded(text string) (err error) {
	number, dir, _ := strings.Cut(text, " ")
	ours := path.IsAbs(dir) && path.Clean(dir) == dir && path.Base(dir) == "gorun-job-"+c.mark[1]
	if c.pid, err = strconv.Atoi(number); err != nil || c.pid < 1 || !ours {
		return c.fail(remote.StepCopy, "invalid answer: landed "+text, err)
	}
	c.dir = dir
	return nil
}

func (c *bundleCopy) sendArchive() error {
	c.report(remote.Progress{Step: remote.StepCopy, Total: c.bundle.size})
	for _, e := range c.bundle.entries {
		if !c.send(e.header) {
			return nil
		}
		if e.path == "" {
			continue
		}
		if err := c.sendParcel(parcel{path: e.path, size: e.size}, c.bundle.size); err != nil {
			return err
		}
		if !c.send(make([]byte, padding(e.size))) {
			return nil
		}
	}
	c.send(make([]byte, archiveEnd))
	return nil
}
