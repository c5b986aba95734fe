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

// idDigits are how many hexadecimal digits an id has: enough for no two jobs to have the
// same one.
const idDigits = 12

// ID is a job's name here, from its secret name of the same digits and more.
func ID(secret string) string { return secret[:min(len(secret), idDigits)] }

// isID reports whether a text can be a job's id.
func isID(text string) bool {
	return len(text) == idDigits && strings.Trim(text, "0123456789abcdef") == ""
}

// Places are the directories in which jobs may have theirs, the first one first: the
// user's runtime directory (XDG_RUNTIME_DIR, "": not set), which no other user can write
// to, then temporary ones. Those that are "" or no absolute path are left out.
func Places(runtime string, temporary ...string) (places []string) {
	for _, dir := range append([]string{runtime, "/run/user/" + strconv.Itoa(os.Geteuid())}, temporary...) {
		if filepath.IsAbs(dir) && !slices.Contains(places, filepath.Clean(dir)) {
			places = append(places, filepath.Clean(dir))
		}
	}
	return places
}

// errForeign is a directory that somebody else could have made, or can write to.
var errForeign = errors.New("is not this user's alone")

// openPrivate opens a directory that nobody but this user can look into: in the directory
// at, or unix.AT_FDCWD.
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

// within is the path of a file in the directory of a descriptor: short, and still right
// if the directory gets another name.
func within(dir int, name string) string { return "/proc/self/fd/" + strconv.Itoa(dir) + "/" + name }

// makePrivate makes the directory of a job in the first place that allows it. announce
// is told of its path before it exists, and again when it can be told from others of that name.
func makePrivate(places []string, id string, announce func(path string)) (path string, dir int, err error) {
	var all []error
	for _, place := range places {
		path := filepath.Join(place, prefix+id)
		if dir, err = makeIn(place, prefix+id, func() { announce(path) }); err == nil {
			return path, dir, nil
		}
		all = append(all, fmt.Errorf("%s: %w", place, err))
	}
	return "", -1, errors.Join(all...)
}

func makeIn(place, name string, announce func()) (dir int, err error) {
	at, err := unix.Open(place, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	if unix.Faccessat(at, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS) != nil || !fit(at) {
		return -1, errForeign
	}
	announce()
	if err := unix.Mkdirat(at, name, 0o700); err != nil { // also where something has that name
		return -1, err
	}
	if dir, err = openPrivate(at, name); err != nil {
		_ = unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
		return dir, err
	}
	announce()
	return dir, nil
}

// fit reports whether a place is one in which this user can have something that stays:
// his own, or one of all users, root's, where nobody can rename what is another's. The
// runtime directory of a user is no place for what root starts with that user's
// variables.
func fit(place int) bool {
	var st unix.Stat_t
	if unix.Fstat(place, &st) != nil {
		return false
	}
	return int(st.Uid) == os.Geteuid() || st.Mode&unix.S_ISVTX != 0 || st.Uid == 0 && st.Mode&0o002 == 0
}
