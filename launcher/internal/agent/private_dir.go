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

// privateDir is a directory of this node for one attempt, for the job's key, PyTorch's timer pipe, the files of its
// flight recorder, and error files without a log directory. The node chooses its path, neither the head nor the ranks.
type privateDir struct {
	dir  string     // "": not needed
	mu   sync.Mutex // guards root
	root *os.Root   // nil: not made

	complain sync.Once // about missing error files
}

// keyName is the name of the file with the job's key.
const keyName = "key"

// choosePrivateDir chooses the directory's path.
func (j *job) choosePrivateDir() {
	if len(j.start.Key)+len(j.start.Dumps) > 0 || j.wantsTimers() || j.start.ErrorFiles && !hasRankDirs(j.start.Logs) {
		j.privateDir.dir = filepath.Join(j.agent.cfg.TempDir, "gorun-"+rand.Text())
	}
}

// hasRankDirs reports whether each rank has a log directory.
func hasRankDirs(l *wire.Logs) bool { return l != nil && !l.Named() && l.Files() }

// makePrivateDir makes the directory if it is needed and does not exist.
func (j *job) makePrivateDir() (err error) {
	p := &j.privateDir
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir != "" && p.root == nil {
		p.root, err = j.guard.makeDir(p.dir)
	}
	return err
}

// prepareErrorFiles makes the directory of error files.
func (j *job) prepareErrorFiles() {
	if err := j.makePrivateDir(); err != nil {
		j.privateDir.complain.Do(func() {
			j.agent.notice("cannot create error files for ranks, so reports lack Python exceptions: %v; set TMPDIR to a "+
				"writable directory", err)
		})
	}
}

// writeKey writes the job's key, which ranks may need from the start.
func (j *job) writeKey() error {
	if len(j.start.Key) == 0 {
		return nil
	}
	j.guard.start(j)
	<-j.guard.started
	err := j.makePrivateDir()
	if err == nil {
		err = create(j.privateDir.root, keyName, j.start.Key)
	}
	if err != nil {
		return fmt.Errorf("write the job's key: %w; set TMPDIR to a writable directory", err)
	}
	return nil
}

// create writes a new file that only this user can read.
func create(root *os.Root, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// keyEnviron returns the variable with the path of the job's key.
func (j *job) keyEnviron() []string {
	if len(j.start.Key) == 0 {
		return nil
	}
	return []string{env.VarJobKey + "=" + filepath.Join(j.privateDir.dir, keyName)}
}

// errorEnviron returns the variable with the path where PyTorch writes an exception that ends the rank.
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

// errorFileLimit bounds the bytes read of an error file.
const errorFileLimit = 64 << 10

// readErrorFile returns the contents and time of a rank's error file; nil: none.
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

// openErrorFile opens a file that the rank controls: it must not block on a pipe nor follow a link.
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

func (p *privateDir) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.root != nil {
		_ = p.root.Close()
	}
}
