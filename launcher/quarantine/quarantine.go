// Package quarantine remembers which hosts failed, for all jobs of a user. They share one small file, which each
// process locks while it uses it. What cannot be parsed counts as empty.
package quarantine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A host that failed Limit times within Window is in quarantine for Duration, from the last failure.
const (
	Limit    = 3
	Window   = time.Hour
	Duration = time.Hour
)

// Bounds of the file.
const (
	maxHosts = 1000
	maxText  = 200
	maxSize  = 4 << 20
)

// Host is what is known of a host that failed, or that the user put into quarantine.
type Host struct {
	Name     string    `json:"host"`               // as command lines name it
	Until    time.Time `json:"until,omitzero"`     // end of its quarantine; absent if it is in none
	Reason   string    `json:"reason,omitempty"`   // why it is in quarantine
	Failures []Failure `json:"failures,omitempty"` // the last ones, at most 3, of the last hour
}

// Failure is one failure of a host.
type Failure struct {
	At   time.Time `json:"at"`   // when it was noticed
	Text string    `json:"text"` // what failed
}

// TimeFormat is how times are shown.
const TimeFormat = "2006-01-02 15:04"

// String says until when a host is in quarantine, why, and how to lift it.
func (h Host) String() string {
	return fmt.Sprintf("%s is in quarantine until %s (`gorun hosts quarantine lift %[1]s` ends it): %[3]s", h.Name,
		h.Until.Local().Format(TimeFormat), h.Reason)
}

// Path returns the file for a user with these values of XDG_STATE_HOME and HOME; "" if both are unusable.
func Path(stateHome, home string) string {
	if !filepath.IsAbs(stateHome) && filepath.IsAbs(home) {
		stateHome = filepath.Join(home, ".local", "state")
	}
	if !filepath.IsAbs(stateHome) {
		return ""
	}
	return filepath.Join(stateHome, "gorun", "hosts.json")
}

// Read returns the hosts in a file, by name. A file that does not exist has none.
func Read(path string, now time.Time) (list []Host, err error) {
	f, err := open(path, os.O_RDONLY, unix.LOCK_SH)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		list, err = decode(f, now), f.Close()
	}
	return list, err
}

// Fail adds a failure of a host. The result says whether it is in quarantine now. In a full file it replaces the
// first host.
func Fail(path, name, text string, now time.Time) (h Host, err error) {
	err = update(path, []string{name}, now, true, func(old *Host) bool {
		old.Failures = append(old.Failures, Failure{now, clip(text)})
		old.Failures = old.Failures[max(0, len(old.Failures)-Limit):]
		if until := now.Add(Duration); len(old.Failures) == Limit && until.After(old.Until) {
			old.Until = until
			old.Reason = fmt.Sprintf("failed %d times within %.0f h, the last time: %s", Limit, Window.Hours(), clip(text))
		}
		h = *old
		return true
	})
	return h, err
}

// Add puts hosts into quarantine, all or none of them. It fails if the file cannot hold as many, 1000.
func Add(path string, names []string, reason string, until, now time.Time) error {
	return update(path, names, now, false, func(h *Host) bool {
		h.Until, h.Reason = until, clip(reason)
		return true
	})
}

// Lift forgets hosts, and returns the names of those that were not known.
func Lift(path string, names []string, now time.Time) (unknown []string, err error) {
	err = update(path, names, now, false, func(h *Host) bool {
		if h.Until.IsZero() && h.Failures == nil {
			unknown = append(unknown, h.Name)
		}
		return false
	})
	return unknown, err
}

// update changes hosts in the file; change returns false to remove one. In a full file a new host replaces the first
// one, or is refused. A disk that is full leaves the file as it was.
func update(path string, names []string, now time.Time, replaces bool, change func(*Host) bool) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := open(path, os.O_RDWR|os.O_CREATE, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	list := decode(f, now)
	had := len(list)
	for _, name := range names {
		h := Host{Name: name}
		if i := slices.IndexFunc(list, func(h Host) bool { return h.Name == name }); i >= 0 {
			h = list[i]
			list = slices.Delete(list, i, i+1)
		}
		if change(&h) {
			if list = append(list, h); len(list) > maxHosts && !replaces {
				return fmt.Errorf("it has %d hosts already, and can hold %d", had, maxHosts)
			}
			list = list[max(0, len(list)-maxHosts):]
		}
	}
	text, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		return err
	}
	beside := path + ".new" // only the holder of the lock writes it
	if err = os.WriteFile(beside, append(text, '\n'), 0o600); err == nil {
		_ = os.Chmod(beside, info.Mode().Perm()) // the user may have changed it
		err = os.Rename(beside, path)
	}
	if err != nil {
		_ = os.Remove(beside)
	}
	return err
}

// lockTime is how long to wait for other processes. The holder may be suspended.
const lockTime = 500 * time.Millisecond

func open(path string, flags, lock int) (*os.File, error) {
	for late := time.Now().Add(lockTime); ; time.Sleep(lockTime / 100) {
		f, err := os.OpenFile(path, flags, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), lock|unix.LOCK_NB)
		if err == nil && isAt(f, path) {
			return f, nil
		}
		if err == nil || err == unix.EWOULDBLOCK || err == unix.EINTR {
			if time.Now().Before(late) {
				_ = f.Close()
				continue
			}
			err = unix.EWOULDBLOCK
		}
		return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, f.Close())
	}
}

// isAt reports whether a file is still the one at path: another process may have put a new one there.
func isAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	now, statErr := os.Stat(path)
	return err == nil && statErr == nil && os.SameFile(mine, now)
}

// decode returns what is still of interest in the file, by name.
func decode(f *os.File, now time.Time) (list []Host) {
	text, _ := io.ReadAll(io.LimitReader(f, maxSize))
	if json.Unmarshal(text, &list) != nil {
		return nil
	}
	for i := range list {
		h := &list[i]
		if !h.Until.After(now) {
			h.Until, h.Reason = time.Time{}, ""
		}
		h.Failures = slices.DeleteFunc(h.Failures, func(f Failure) bool { return now.Sub(f.At) >= Window || f.At.After(now) })
	}
	list = slices.DeleteFunc(list, func(h Host) bool { return h.Until.IsZero() && len(h.Failures) == 0 })
	slices.SortFunc(list, func(a, b Host) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func clip(text string) string { return text[:min(len(text), maxText)] }
