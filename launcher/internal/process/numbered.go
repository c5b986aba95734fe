package process

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// RemoveNumbered removes the regular files of this user whose names are a prefix, which is
// an absolute path, and a number: "/dev/shm/sm_segment.node1.0.3f2a0000." has its of each rank.
// What cannot be removed stays.
func RemoveNumbered(prefix string) {
	dir, begin := filepath.Split(prefix)
	if !filepath.IsAbs(dir) || begin == "" {
		return
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		number, is := strings.CutPrefix(e.Name(), begin)
		if !is || number == "" || strings.Trim(number, "0123456789") != "" || !e.Type().IsRegular() {
			continue
		}
		if f, err := e.Info(); err == nil && f.Mode().IsRegular() && f.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid()) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
