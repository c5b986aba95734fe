package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/doctor"
	"gorun/launcher/doctor/inspect"
	"gorun/launcher/internal/program"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/placement/gpufacts"
)

// check answers beside the loop that reads frames: reading a program may take its time.
func (a *Agent) check(c wire.Check) error {
	programs := slices.Clone(a.programs)
	go func() {
		host := a.inspect(c, programs)
		text, err := json.Marshal(&host)
		if err != nil || len(text) > wire.HostLimit {
			text, _ = json.Marshal(&doctor.Host{Unknown: []string{"what was found there is too much to be sent"}})
		}
		_ = a.link.Send(&wire.Checked{Host: text}) // a head that is gone is noticed where frames are read
	}()
	return nil
}

// inspectLimit is how long everything that is inspected may take: whoever asks wants an
// answer in five seconds, and has to reach this host first.
const inspectLimit = 3 * time.Second

// inspect is what package doctor judges. What is on file systems that may be somebody else's
// comes first, with a time for each.
func (a *Agent) inspect(c wire.Check, programs []program.Resolved) doctor.Host {
	var own doctor.Program
	if c.Dir != "" {
		own.NoDir = inTime(c.Patience, func() string { return missing(c.Dir) }, func(why string) string { return why })
	}
	rooms := a.rooms()
	for i, room := range rooms {
		rooms[i] = inTime(c.Patience, func() doctor.DiskSpace { return measured(room) }, func(why string) doctor.DiskSpace {
			room.Error = why
			return room
		})
	}
	environ := slices.Concat(c.Environ, a.cfg.Environ)
	cfg := inspect.Config{
		Root: os.DirFS("/"), System: inspect.Local(), NVML: a.cfg.askNVML, Environ: environ, Limit: inspectLimit,
		Basics: !c.Inspect,
	}
	if c.Program && len(programs) > 0 {
		own.Path = fileOf(programs[0])
		own = inTime(c.Patience, func() doctor.Program { return summed(own) }, func(why string) doctor.Program {
			own.Error = why
			return own
		})
		cfg.Program, _ = filepath.Abs(programs[0].Path)
	}
	if c.Inspect {
		cfg.Python = interpreter(c, environ)
	}
	host := inspect.Inspect(cfg)
	if host.Program != nil {
		own.ELF = host.Program.ELF
	}
	host.Program, host.DiskSpace, host.Gorun = &own, rooms, a.cfg.Version
	host.Executable, _ = os.Executable()
	return host
}

// askNVML asks NVIDIA's library by another process.
func (c Config) askNVML(_ int, limit time.Duration) (gpufacts.Facts, error) {
	return c.NVML.FactsWithin(limit)
}

// interpreter is the Python that a script would get; "" if there is none.
func interpreter(c wire.Check, environ []string) string {
	found, err := program.Resolve(program.Request{
		Name: "site", Start: spec.StartModule, Interpreter: c.Python, Lookup: func(name string) string {
			return lookup(environ, name)
		},
	})
	if err != nil {
		return ""
	}
	path, err := filepath.Abs(found.Path)
	if err != nil {
		return ""
	}
	return path
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
func (a *Agent) rooms() (rooms []doctor.DiskSpace) {
	cache := lookup(a.cfg.Environ, "XDG_CACHE_HOME")
	if home := lookup(a.cfg.Environ, "HOME"); !filepath.IsAbs(cache) && home != "" {
		cache = filepath.Join(home, ".cache")
	}
	if filepath.IsAbs(cache) {
		rooms = append(rooms, doctor.DiskSpace{Purpose: "cache", Path: cache})
	}
	return append(rooms, doctor.DiskSpace{Purpose: "temporary files", Path: a.cfg.TempDir})
}

// measured has the free space of a directory, or of the one that it would be made in.
func measured(r doctor.DiskSpace) doctor.DiskSpace {
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

// fileOf is the file by which two programs are told apart: a script's own rather than
// its interpreter's; "" for what is built first.
func fileOf(p program.Resolved) string {
	if p.Source != "" {
		return p.Source
	}
	return p.Path
}

// summed has the hash of a file's first bytes.
func summed(s doctor.Program) doctor.Program {
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
	if _, err := io.Copy(hash, io.LimitReader(f, doctor.ProgramBytes)); err != nil {
		s.Error = cause(err)
		return s
	}
	s.Size, s.SHA256 = info.Size(), hex.EncodeToString(hash.Sum(nil))
	return s
}
