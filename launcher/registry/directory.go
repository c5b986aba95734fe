package registry

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// idDigits is the number of hexadecimal digits of an id, enough to make it unique.
const idDigits = 12

// ID returns a job's id: the first digits of its secret name.
func ID(secret string) string { return secret[:min(len(secret), idDigits)] }

func isID(text string) bool {
	return len(text) == idDigits && strings.Trim(text, "0123456789abcdef") == ""
}

// Places returns the directories for entries in order of preference: the user's runtime directory (XDG_RUNTIME_DIR, may
// be ""), which no other user can write to, then temporary ones. It omits paths that are not absolute.
func Places(runtime string, temporary ...string) (places []string) {
	for _, dir := range append([]string{runtime, "/run/user/" + strconv.Itoa(os.Geteuid())}, temporary...) {
		if filepath.IsAbs(dir) && !slices.Contains(places, filepath.Clean(dir)) {
			places = append(places, filepath.Clean(dir))
		}
	}
	return places
}

// errForeign reports a directory that another user may have made, or can write to.
var errForeign = errors.New("is not private to this user")

// openPrivate opens a directory that only this user can access, relative to the descriptor at or unix.AT_FDCWD.
func openPrivate(at int, name string) (int, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0) {
		err = errForeign
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

// pathIn returns the path of a file in an open directory: it is short, and survives a rename of the directory.
func pathIn(dir int, name string) string { return "/proc/self/fd/" + strconv.Itoa(dir) + "/" + name }

// makePrivate makes the directory of a job in the first suitable place. It calls announce with the path before and
// after.
func makePrivate(places []string, id string, announce func(path string)) (path string, dir int, err error) {
	var problems []error
	for _, place := range places {
		path := filepath.Join(place, prefix+id)
		if dir, err = makeIn(place, prefix+id, func() { announce(path) }); err == nil {
			return path, dir, nil
		}
		problems = append(problems, fmt.Errorf("%s: %w", place, err))
	}
	return "", -1, errors.Join(problems...)
}

func makeIn(place, name string, announce func()) (dir int, err error) {
	at, err := unix.Open(place, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	if unix.Faccessat(at, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS) != nil || !isSafe(at) {
		return -1, errForeign
	}
	announce()
	if err := unix.Mkdirat(at, name, 0o700); err != nil { // also if the name exists
		return -1, err
	}
	if dir, err = openPrivate(at, name); err != nil {
		_ = unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
		return dir, err
	}
	announce()
	return dir, nil
}

// isSafe reports whether no other user can rename this user's directories in a place: it is the user's own, sticky, or
// root's. Another user's runtime directory is not safe, as for a job that root starts with that user's environment.
func isSafe(place int) bool {
	var st unix.Stat_t
	if unix.Fstat(place, &st) != nil {
		return false
	}
	return int(st.Uid) == os.Geteuid() || st.Mode&unix.S_ISVTX != 0 || st.Uid == 0 && st.Mode&0o002 == 0
}
