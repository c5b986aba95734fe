package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/env"
	"gorun/launcher/internal/wire"
)

// prepareDumps chooses where PyTorch's flight recorder writes its files. PyTorch ends a rank that cannot make the named
// pipe, so this node makes one to try.
func (j *job) prepareDumps() {
	if len(j.start.Dumps) == 0 {
		return
	}
	j.guard.start(j)
	<-j.guard.started
	if j.makePrivateDir() != nil { // scheduleLateSetup reports it
		return
	}
	begin := filepath.Join(j.privateDir.dir, wire.DumpName)
	for _, name := range j.start.Dumps {
		switch name {
		case env.VarTorchNCCLDebugInfoPipeFile:
			if unix.Mkfifo(begin, 0o600) != nil || unix.Unlink(begin) != nil {
				continue
			}
		case env.VarTorchFRDumpTempFile, env.VarTorchNCCLDebugInfoTempFile:
		default: // of a head that this node does not trust
			continue
		}
		j.dumps = append(j.dumps, name+"="+begin)
	}
}

// Limits of the files of flight recorders.
const (
	dumpTime = 2 * time.Second // for PyTorch, which looks each second, to write them
	dumpTick = 50 * time.Millisecond
)

// dumpPath returns where a rank's PyTorch finds a file or pipe of its flight recorder, by the variable that begins its
// name; "": none.
func (j *job) dumpPath(row wire.Row, variable, ending string) string {
	for _, environ := range [][]string{row.Env, j.start.Common, j.dumps} {
		if begin := lookup(environ, variable); begin != "" {
			return pathFrom(j.start.Apps[row.App].Dir, begin+strconv.Itoa(row.Rank)+ending)
		}
	}
	return ""
}

// requestDumps has the ranks' flight recorders write what they know, and waits for the files, but not for long.
func (j *job) requestDumps() {
	var rows []wire.Row
	before := map[int]time.Time{}
	for _, row := range j.rows() {
		pipe := j.dumpPath(row, env.VarTorchNCCLDebugInfoPipeFile, ".pipe")
		fd, err := unix.Open(pipe, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) // fails unless it is read
		if err != nil {
			continue
		}
		var stat unix.Stat_t
		if unix.Fstat(fd, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFIFO {
			rows, before[row.Rank] = append(rows, row), j.dump(row).at
			_, _ = unix.Write(fd, []byte("1")) // a full pipe requests a dump, too
		}
		_ = unix.Close(fd)
	}
	for limit := time.Now().Add(dumpTime); len(rows) > 0 && time.Now().Before(limit); time.Sleep(dumpTick) {
		rows = slices.DeleteFunc(rows, func(row wire.Row) bool {
			written := j.dump(row)
			return written.at.After(before[row.Rank]) && time.Since(written.at) > dumpTick
		})
	}
}

// dump is a file that a rank's flight recorder wrote.
type dump struct {
	path string // "": none
	at   time.Time
	size int64
}

// dump finds the file that a rank's flight recorder wrote since the attempt began.
func (j *job) dump(row wire.Row) dump {
	began := j.began()
	for _, variable := range []string{env.VarTorchFRDumpTempFile, env.VarTorchNCCLDebugInfoTempFile} {
		file := j.dumpPath(row, variable, "")
		info, err := os.Lstat(file)
		if err == nil && info.Mode().IsRegular() && info.ModTime().After(began) {
			return dump{file, info.ModTime(), info.Size()}
		}
	}
	return dump{}
}

// readDumps returns the files of the ranks' flight recorders, of at most left bytes. What is too large is left out, as
// a part of such a file is of no use.
func (j *job) readDumps(left int64) (files []wire.File) {
	for _, row := range j.rows() {
		d := j.dump(row)
		if d.path == "" {
			continue
		}
		file := wire.File{Name: wire.DumpName + strconv.Itoa(row.Rank)}
		err := fmt.Errorf("its %d KiB are too many for all nodes' evidence", d.size>>10)
		if d.size <= left {
			file.Text, err = readDump(d)
		}
		if err != nil {
			file.Text, file.Error = nil, err.Error()
		}
		left -= int64(len(file.Text))
		files = append(files, file)
	}
	return files
}

// readDump reads a file that a rank controls: it must not block on a pipe nor follow a link.
func readDump(d dump) ([]byte, error) {
	f, err := os.OpenFile(d.path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, d.size+1))
	if err == nil && int64(len(text)) > d.size {
		err = errors.New(d.path + " is being written")
	}
	return text, err
}
