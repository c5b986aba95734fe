package agent

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gorun/internal/printable"
	"gorun/launcher/doctor"
	"gorun/launcher/doctor/inspect"
	"gorun/launcher/internal/program"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/placement/gpufacts"
	"gorun/placement/sysfs"
)

// check handles a Check frame on another goroutine, as reading a program may take long.
func (a *Agent) check(c wire.Check) error {
	programs := slices.Clone(a.programs)
	go func() {
		host := a.inspect(c, programs)
		text, err := json.Marshal(&host)
		if err != nil || len(text) > wire.HostLimit {
			text, _ = json.Marshal(&doctor.Host{Unknown: []string{"the description of this host is too large to send"}})
		}
		_ = a.link.Send(&wire.Checked{Host: text}) // the head may be gone
	}()
	return nil
}

// inspect returns the facts for package doctor. What may be on network file systems comes first, each with a timeout.
func (a *Agent) inspect(c wire.Check, programs []program.Resolved) doctor.Host {
	var own doctor.Program
	if c.Dir != "" {
		why, err := withTimeout(c.Patience, func() string { return dirError(c.Dir) })
		if err != nil {
			why = err.Error()
		}
		own.NoDir = why
	}
	spaces := a.diskSpaces()
	for i, space := range spaces {
		measured, err := withTimeout(c.Patience, func() doctor.DiskSpace { return measureSpace(space) })
		if err != nil {
			measured = space
			measured.Error = err.Error()
		}
		spaces[i] = measured
	}
	environ := slices.Concat(c.Environ, a.cfg.Environ)
	cfg := inspect.Config{
		Root: sysfs.Root(), System: inspect.Local(), NVML: a.cfg.nvmlFacts, Getenv: lookupIn(environ), Limit: c.Limit,
		Quick: c.Quick,
	}
	if c.Program && len(programs) > 0 {
		own.Path = fileOf(programs[0])
		file := own
		summed, err := withTimeout(c.Patience, func() doctor.Program { return checksum(file) })
		if own = summed; err != nil {
			own = file
			own.Error = err.Error()
		}
	}
	if !c.Quick {
		cfg.Python = interpreter(c, environ)
	}
	host := inspect.Inspect(cfg)
	host.Program, host.DiskSpace, host.Gorun = &own, spaces, a.cfg.Version
	host.Executable, _ = os.Executable()
	return host
}

// nvmlFacts queries NVIDIA's library in another process.
func (c Config) nvmlFacts(_ int, limit time.Duration) (gpufacts.Facts, error) {
	return c.NVML.FactsWithin(limit)
}

// interpreter returns the Python that would run a script; "": none.
func interpreter(c wire.Check, environ []string) string {
	site := spec.Command{Name: "site", Start: spec.StartModule, Interpreter: c.Python}
	found, err := program.Resolve(site, lookupIn(environ))
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
// never answers. do then goes on in the background, so the caller must not change what do reads.
func withTimeout[T any](limit time.Duration, do func() T) (result T, err error) {
	done := make(chan T, 1)
	go func() { done <- do() }()
	select {
	case result = <-done:
		return result, nil
	case <-time.After(limit):
		return result, fmt.Errorf("the file system did not answer within %s", limit)
	}
}

// dirError returns why a directory cannot be used; "": it can.
func dirError(dir string) string {
	if info, err := os.Stat(dir); err != nil {
		return printable.Cause(err).Error()
	} else if !info.IsDir() {
		return unix.ENOTDIR.Error()
	}
	return ""
}

// diskSpaces returns the directories that a job needs. The cache is where package bootstrap puts copies of gorun.
func (a *Agent) diskSpaces() (spaces []doctor.DiskSpace) {
	cache := lookup(a.cfg.Environ, "XDG_CACHE_HOME")
	if home := lookup(a.cfg.Environ, "HOME"); !filepath.IsAbs(cache) && home != "" {
		cache = filepath.Join(home, ".cache")
	}
	if filepath.IsAbs(cache) {
		spaces = append(spaces, doctor.DiskSpace{Purpose: "cache", Path: cache})
	}
	return append(spaces, doctor.DiskSpace{Purpose: "temporary files", Path: a.cfg.TempDir})
}

// measureSpace adds the free space of a directory, or of the ancestor in which the cache would be made.
func measureSpace(r doctor.DiskSpace) doctor.DiskSpace {
	dir := r.Path
	for r.Purpose == "cache" && dir != "/" {
		if _, err := os.Lstat(dir); !os.IsNotExist(err) {
			break
		}
		dir = filepath.Dir(dir)
	}
	f := inspect.Local().FileSystem(dir)
	r.Free, r.Total, r.Error = f.Free, f.Total, f.Error
	return r
}

// fileOf returns the file that identifies a program: a script rather than its interpreter; "": not built yet.
func fileOf(p program.Resolved) string {
	if p.Source != "" {
		return p.Source
	}
	return p.Path
}

// checksum adds the hash of a file's first bytes, and the architecture that it is built for.
func checksum(s doctor.Program) doctor.Program {
	if s.Path == "" {
		return s
	}
	f, err := os.Open(s.Path)
	if err != nil {
		s.Error = printable.Cause(err).Error()
		return s
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return s
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(f, doctor.ProgramBytes)); err != nil {
		s.Error = printable.Cause(err).Error()
		return s
	}
	s.Size, s.SHA256 = info.Size(), hex.EncodeToString(hash.Sum(nil))
	if image, err := elf.NewFile(f); err == nil {
		s.ELF = map[elf.Machine]string{ // the kernel's names
			elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64", elf.EM_RISCV: "riscv64",
		}[image.Machine]
	}
	return s
}
