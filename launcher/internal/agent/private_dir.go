package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"gorun/env"
	"gorun/launcher/internal/wire"
)

// private is the directory that this node makes for an attempt: for the job's key, and for error files that are not
// beside log files. The launcher does not say where it is, nor do the ranks.
type privateDir struct {
	dir  string // "": none is needed
	mu   sync.Mutex
	root *os.Root // nil: it was not made
}

// keyName is the file with the job's key.
const keyName = "key"

// placePrivate decides where the directory will be.
func (j *job) choosePrivateDir() {
	if len(j.start.Key) > 0 || j.wantsTimers() || j.start.ErrorFiles && !hasRankDirs(j.start.Logs) {
		j.privateDir.dir = filepath.Join(j.agent.cfg.TempDir, "gorun-"+rand.Text())
	}
}

// hasDirs reports whether each rank has a directory of log files.
func hasRankDirs(l *wire.Logs) bool { return l != nil && !l.Named() && l.Files() }

// makePrivate makes the directory, if one is needed, unless it is there.
func (j *job) makePrivateDir() (err error) {
	p := &j.privateDir
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir != "" && p.root == nil {
		p.root, err = j.guard.makeDir(p.dir)
	}
	return err
}

// writeKey makes the directory with the job's key, which ranks may need at once.
func (j *job) writeKey() error {
	if len(j.start.Key) == 0 {
		return nil
	}
	j.guard.begin(j)
	<-j.guard.started
	err := j.makePrivateDir()
	if err == nil {
		err = create(j.privateDir.root, keyName, j.start.Key)
	}
	if err != nil {
		return fmt.Errorf("write the job's key: %w; TMPDIR names a directory that can be written to", err)
	}
	return nil
}

// create makes a file that only this user can read.
func create(root *os.Root, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// keyEnviron tells ranks where the job's key is.
func (j *job) keyEnviron() []string {
	if len(j.start.Key) == 0 {
		return nil
	}
	return []string{env.VarJobKey + "=" + filepath.Join(j.privateDir.dir, keyName)}
}

// errorEnviron tells a rank where PyTorch writes an exception that ends it.
func (j *job) errorEnviron(row wire.Row) []string {
	file := ""
	switch l := j.start.Logs; {
	case !j.start.ErrorFiles || row.Spawned:
	case hasRankDirs(l):
		file = j.logs.ErrorFile(row.LocalRank)
	case j.privateDir.dir != "":
		file = filepath.Join(j.privateDir.dir, errorName(row))
	}
	if file == "" {
		return nil
	}
	return []string{env.VarTorchelasticErrorFile + "=" + file}
}

func errorName(row wire.Row) string { return "error." + strconv.Itoa(row.LocalRank) + ".json" }

// errorFileLimit bounds what is read of an error file, in bytes.
const errorFileLimit = 64 << 10

// readErrorFile returns what a rank wrote of its own end, and when.
func (j *job) readErrorFile(row wire.Row) ([]byte, time.Time) {
	if !j.start.ErrorFiles || row.Spawned {
		return nil, time.Time{}
	}
	f, err := j.openErrorFile(row)
	if err != nil {
		return nil, time.Time{}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, time.Time{}
	}
	text, err := io.ReadAll(io.LimitReader(f, errorFileLimit))
	if err != nil {
		return nil, time.Time{}
	}
	return text, info.ModTime()
}

// openErrorFile opens what is in that place, which is the rank's to fill: a pipe there must not keep us waiting for a
// writer, nor a link have us read another file.
func (j *job) openErrorFile(row wire.Row) (*os.File, error) {
	const flags = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOFOLLOW
	if hasRankDirs(j.start.Logs) {
		return j.logs.OpenFile(j.logs.ErrorFile(row.LocalRank), flags)
	}
	p := &j.privateDir
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.root == nil {
		return nil, fs.ErrNotExist
	}
	if info, err := p.root.Lstat(errorName(row)); err != nil || !info.Mode().IsRegular() {
		return nil, fs.ErrNotExist
	}
	return p.root.OpenFile(errorName(row), flags, 0)
}

// close is for the end of the attempt.
func (p *privateDir) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.root != nil {
		_ = p.root.Close()
	}
}
