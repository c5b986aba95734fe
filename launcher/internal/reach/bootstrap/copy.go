package bootstrap

import (
	"context"
	_ "embed"
	"path"
	"strconv"
	"strings"

	"gorun/launcher/internal/reach/remote"
)

//go:embed copy.sh
var copyScript string

// JobDir is a bundle on a host, in a directory of its own.
type JobDir struct {
	// Path is that directory there: 0700, with an unpredictable name.
	Path string
	// PID is the process that stays there. SIGTERM has it remove the directory; its command line has the directory's name.
	PID    int
	bundle *Bundle
	keeper *Stream
}

// Copy puts a bundle into a new directory on the host, in the first of $TMPDIR,
// /tmp, the user's cache and /dev/shm that has room and lets programs start. A
// process stays there that removes the directory once [JobDir.Remove] is called,
// or the connection ends. Ending ctx ends the copy, and has no effect afterwards.
// Errors are *remote.Error.
func Copy(ctx context.Context, host remote.Host, b *Bundle) (*JobDir, error) {
	c := &copying{talk: newTalk(ctx, host), bundle: b}
	var none words
	line := c.fill(copyScript, &none, "@BYTES@", strconv.FormatInt(b.size, 10), "@ROOM@",
		strconv.FormatInt(b.room(), 10), "@LAST@", lastName)
	if err := c.hold(ctx, line, c.answer); err != nil {
		return nil, err
	}
	c.report(remote.Progress{Step: remote.StepCopy, Sent: b.size, Total: b.size, Running: true})
	keeper := &Stream{Process: c.process, rest: c.answers.rest(), host: host.Name(), began: c.began}
	return &JobDir{Path: c.dir, PID: c.pid, bundle: b, keeper: keeper}, nil
}

// PathOf returns where a path that was given to --copy, or one below it, lies there.
func (c *JobDir) PathOf(name string) (string, bool) {
	in, ok := c.bundle.PathOf(name)
	return path.Join(c.Path, in), ok
}

// Remove removes the directory with all that is in it. Ending ctx gives up waiting
// for that; the host goes on with it.
func (c *JobDir) Remove(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { c.keeper.Close() })
	defer stop()
	if err := c.keeper.CloseWrite(); err != nil {
		return err
	}
	var none [64]byte
	for {
		if _, err := c.keeper.rest.Read(none[:]); err != nil {
			break
		}
	}
	c.keeper.Wait() // its exit code says nothing
	return context.Cause(ctx)
}

// copying is one call of Copy.
type copying struct {
	*talk
	bundle *Bundle
	dir    string
	pid    int
}

// answer is what follows from one answer of the host.
func (c *copying) answer(_ context.Context, word, text string) (done bool, err error) {
	switch word {
	case "need":
		return false, c.send()
	case "landed":
		return true, c.landed(text)
	}
	return false, c.fail(remote.StepCopy, "the files of --copy could not be put there: "+text, "", nil)
}

// landed reads who stays there, and where.
func (c *copying) landed(text string) (err error) {
	number, dir, _ := strings.Cut(text, " ")
	ours := path.IsAbs(dir) && path.Clean(dir) == dir && path.Base(dir) == "gorun-job-"+c.mark[1]
	if c.pid, err = strconv.Atoi(number); err != nil || c.pid < 1 || !ours {
		return c.fail(remote.StepCopy, "it answers what no such host does: landed "+text, "", err)
	}
	c.dir = dir
	return nil
}

// send writes the archive.
func (c *copying) send() error {
	c.report(remote.Progress{Step: remote.StepCopy, Total: c.bundle.size})
	for _, e := range c.bundle.entries {
		if !c.write(e.header) {
			return nil
		}
		if e.path == "" {
			continue
		}
		if err := c.sendFile(e.path, e.size, c.bundle.size); err != nil {
			return err
		}
		if !c.write(make([]byte, padding(e.size))) {
			return nil
		}
	}
	c.write(make([]byte, 1024))
	return nil
}

// write tells whether the host took the bytes; if not it says why itself.
func (c *copying) write(b []byte) bool {
	n, err := c.process.Write(b)
	c.sent += int64(n)
	return err == nil
}
