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
		why, err := withTimeout(c.Patience, func() string { return dirError(c.Dir) })
		if err != nil {
			why = err.Error()
		}
		own.NoDir = why
	}
	rooms := a.rooms()
	for i, room := range rooms {
		measured, err := withTimeout(c.Patience, func() doctor.DiskSpace { return measureSpace(room) })
		if err != nil {
			room.Error = err.Error()
			measured = room
		}
		rooms[i] = measured
	}
	environ := slices.Concat(c.Environ, a.cfg.Environ)
	cfg := inspect.Config{
		Root: os.DirFS("/"), System: inspect.Local(), NVML: a.cfg.nvmlFacts, Environ: environ, Limit: inspectLimit,
		Basics: !c.Inspect,
	}
	if c.Program && len(programs) > 0 {
		own.Path = fileOf(programs[0])
		summed, err := withTimeout(c.Patience, func() doctor.Program { return checksum(own) })
		if err != nil {
			own.Error = err.Error()
			summed = own
		}
		own = summed
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
func (c Config) nvmlFacts(_ int, limit time.Duration) (gpufacts.Facts, error) {
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

// withTimeout returns the result of do, or an error if that takes too long: a network file system whose server is gone
// never answers. do then goes on in the background.
func withTimeout[T any](limit time.Duration, do func() T) (result T, err error) {
	done := make(chan T, 1)
	go func() { done <- do() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case result = <-done:
		return result, nil
	case <-timer.C:
		return result, fmt.Errorf("no answer of the file system for %s", limit)
	}
}

// missing is what is wrong with a directory.
func dirError(dir string) string {
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
func measureSpace(r doctor.DiskSpace) doctor.DiskSpace {
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
func checksum(s doctor.Program) doctor.Program {
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
