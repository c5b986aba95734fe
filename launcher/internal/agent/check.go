package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/inherited"
	"gorun/launcher/internal/program"
	"gorun/launcher/internal/wire"
)

// check answers beside the loop that reads frames: reading a program may take its time.
func (a *Agent) check(c wire.Check) error {
	programs := slices.Clone(a.programs)
	go func() {
		checked := a.look(c, programs)
		if c.Inspect {
			checked.Host = a.inspect(c, programs)
		}
		_ = a.link.Send(&checked) // a head that is gone is noticed where frames are read
	}()
	return nil
}

func (a *Agent) look(c wire.Check, programs []program.Resolved) wire.Checked {
	r := wire.Checked{Version: a.cfg.Version, Limits: limits()}
	r.Executable, _ = os.Executable()
	r.Kernel, r.Architecture = kernel()
	if c.Dir != "" {
		r.Dir = inTime(c.Patience, func() string { return missing(c.Dir) }, func(why string) string { return why })
	}
	for _, room := range a.rooms() {
		r.Rooms = append(r.Rooms, inTime(c.Patience, func() wire.Room { return measured(room) }, func(why string) wire.Room {
			return wire.Room{Purpose: room.Purpose, Path: room.Path, Error: why}
		}))
	}
	if c.Programs {
		for _, p := range programs {
			sum := wire.Sum{Path: fileOf(p)}
			r.Files = append(r.Files, inTime(c.Patience, func() wire.Sum {
				return summed(sum, c.Most)
			}, func(why string) wire.Sum {
				return wire.Sum{Path: sum.Path, Error: why}
			}))
		}
	}
	adapters, err := os.ReadDir("/sys/class/infiniband")
	r.InfiniBand = err == nil && len(adapters) > 0
	return r
}

// inTime is what do returns, unless that takes too long: a network file system whose
// server is gone answers never. late makes the answer then.
func inTime[T any](patience time.Duration, do func() T, late func(why string) T) T {
	done := make(chan T, 1)
	go func() { done <- do() }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case t := <-done:
		return t
	case <-timer.C:
		return late(fmt.Sprintf("no answer of the file system for %s", patience))
	}
}

// kernel is the kernel's release and the name of the machine's architecture.
func kernel() (release, machine string) {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return "", ""
	}
	return unix.ByteSliceToString(name.Release[:]), unix.ByteSliceToString(name.Machine[:])
}

// missing is what is wrong with a directory.
func missing(dir string) string {
	if info, err := os.Stat(dir); err != nil {
		return cause(err)
	} else if !info.IsDir() {
		return unix.ENOTDIR.Error()
	}
	return ""
}

// cause is an error without the path that was asked for.
func cause(err error) string {
	if why := (*fs.PathError)(nil); errors.As(err, &why) {
		err = why.Err
	}
	return err.Error()
}

// rooms are the directories that a job needs: gorun's copies go into the first that
// package bootstrap tries.
func (a *Agent) rooms() (rooms []wire.Room) {
	cache := lookup(a.cfg.Environ, "XDG_CACHE_HOME")
	if home := lookup(a.cfg.Environ, "HOME"); !filepath.IsAbs(cache) && home != "" {
		cache = filepath.Join(home, ".cache")
	}
	if filepath.IsAbs(cache) {
		rooms = append(rooms, wire.Room{Purpose: "cache", Path: cache})
	}
	return append(rooms, wire.Room{Purpose: "temporary files", Path: a.cfg.TempDir})
}

// measured has the free space of a directory, or of the one that it would be made in.
func measured(r wire.Room) wire.Room {
	var s unix.Statfs_t
	for dir := r.Path; ; dir = filepath.Dir(dir) {
		err := unix.Statfs(dir, &s)
		if err == nil {
			break
		}
		if err != unix.ENOENT || dir == filepath.Dir(dir) || r.Purpose != "cache" {
			r.Error = err.Error()
			return r
		}
	}
	r.Free, r.Total = int64(s.Bavail)*s.Bsize, int64(s.Blocks)*s.Bsize
	if s.Flags&unix.ST_RDONLY != 0 {
		r.Error = unix.EROFS.Error()
	}
	return r
}

// limits are those that ranks start with.
func limits() (list []wire.Limit) {
	for _, l := range []struct {
		name     string
		resource int
	}{{"memlock", unix.RLIMIT_MEMLOCK}, {"nofile", unix.RLIMIT_NOFILE}, {"nproc", unix.RLIMIT_NPROC}} {
		var now unix.Rlimit
		if unix.Getrlimit(l.resource, &now) != nil {
			continue
		}
		if was := inherited.NoFile; l.resource == unix.RLIMIT_NOFILE && was.Hard != 0 {
			now = unix.Rlimit{Cur: was.Soft, Max: was.Hard} // Go has raised it for itself
		}
		list = append(list, wire.Limit{Name: l.name, Soft: limit(now.Cur), Hard: limit(now.Max)})
	}
	return list
}

// limit is -1 for no limit.
func limit(n uint64) int64 {
	if n > math.MaxInt64 {
		return -1
	}
	return int64(n)
}

// fileOf is the file by which two programs are told apart: a script's own rather than
// its interpreter's; "" for what is built first.
func fileOf(p program.Resolved) string {
	if p.Source != "" {
		return p.Source
	}
	return p.Path
}

// summed has the hash of a file's first bytes.
func summed(s wire.Sum, most int64) wire.Sum {
	if s.Path == "" {
		return s
	}
	f, err := os.Open(s.Path)
	if err != nil {
		s.Error = cause(err)
		return s
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return s
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(f, most)); err != nil {
		s.Error = cause(err)
		return s
	}
	s.Size, s.SHA256 = info.Size(), hex.EncodeToString(hash.Sum(nil))
	return s
}
