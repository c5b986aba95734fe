package bootstrap

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Bundle is the list of the files that --copy names, read once for all hosts.
type Bundle struct {
	dir     string // the directory that paths are relative to
	entries []entry
	targets map[string]string // absolute path of an item → its path in the job's directory
	size    int64             // bytes of the archive
	content int64             // bytes of the files
	// Skipped are paths of neither a file nor a directory nor a symbolic link.
	Skipped []string
}

// entry is an entry of the tar archive.
type entry struct {
	header []byte // encoded
	path   string // the local file with the content, "" for none
	size   int64
}

// padding is the number of bytes after content of that size in an archive, archiveEnd that at its end.
func padding(size int64) int64 { return -size & 511 }

const archiveEnd = 1024

// lastName is the last entry, which proves to the host that the archive is complete.
const lastName = ".gorun-complete"

// ReadBundle lists the files below the paths, which may be relative to dir. A path below dir keeps its relative
// path; of
// others only the last element stays. A path that is a symbolic link is followed; links in a directory are copied as
// links.
func ReadBundle(dir string, paths []string) (*Bundle, error) {
	b := &Bundle{dir: dir, targets: map[string]string{}}
	names := map[string]string{}
	for _, path := range paths {
		from := b.absolute(path)
		to := filepath.Base(from)
		if relative, err := filepath.Rel(dir, from); err == nil && filepath.IsLocal(relative) {
			to = relative
		}
		if other, taken := names[to]; taken && other != from {
			return nil, fmt.Errorf("--copy %s and --copy %s would both be %s on the hosts", other, from, to)
		} else if taken {
			continue
		}
		names[to], b.targets[from] = from, to
		if err := b.walk(from, to); err != nil {
			return nil, fmt.Errorf("--copy %s: %w", path, err)
		}
	}
	if err := b.add(tar.Header{Typeflag: tar.TypeReg, Name: lastName, Mode: 0o600}, ""); err != nil {
		return nil, err
	}
	b.size += archiveEnd
	return b, nil
}

func (b *Bundle) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(b.dir, path)
}

// PathOf returns the path in the job's directory of a file that is copied: a path given to ReadBundle, or one below it.
func (b *Bundle) PathOf(path string) (string, bool) {
	path = b.absolute(path)
	for from, to := range b.targets {
		if below, err := filepath.Rel(from, path); err == nil && filepath.IsLocal(below) {
			return filepath.Join(to, below), true
		}
	}
	return "", false
}

// walk adds a file, or a directory with all that is in it.
func (b *Bundle) walk(from, to string) error {
	real, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	return filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		below, err := filepath.Rel(real, path)
		if err != nil {
			return err
		}
		return b.addFile(path, filepath.Join(to, below), info)
	})
}

// addFile adds the file at path under a name.
func (b *Bundle) addFile(path, name string, info fs.FileInfo) error {
	header := tar.Header{
		Name: filepath.ToSlash(name), Mode: int64(info.Mode().Perm()),
		ModTime: info.ModTime().Truncate(1e9),
	}
	switch {
	case name == ".":
		return nil
	case info.IsDir():
		// The owner must be able to fill and remove the directory.
		header.Typeflag, header.Name, header.Mode = tar.TypeDir, header.Name+"/", header.Mode|0o700
	case info.Mode().IsRegular():
		header.Typeflag, header.Size = tar.TypeReg, info.Size()
		return b.add(header, path)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, target, 0o777
	default:
		b.Skipped = append(b.Skipped, path)
		return nil
	}
	return b.add(header, "")
}

// add appends an entry.
func (b *Bundle) add(header tar.Header, path string) error {
	var bytes bytes.Buffer
	if err := tar.NewWriter(&bytes).WriteHeader(&header); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "archive/tar: "))
	}
	b.entries = append(b.entries, entry{bytes.Bytes(), path, header.Size})
	b.size += int64(bytes.Len()) + header.Size + padding(header.Size)
	b.content += header.Size
	return nil
}

// room is the space in KiB that a host needs: blocks, and an eighth more.
func (b *Bundle) room() int64 { return (b.content+b.content/8)/1024 + 4*int64(len(b.entries)) }
