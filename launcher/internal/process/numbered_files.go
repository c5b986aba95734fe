package process

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// RemoveNumbered removes this user's regular files whose absolute path is a prefix followed by a decimal number, such
// as those of all ranks below "/dev/shm/sm_segment.node1.0.3f2a0000.". It ignores errors.
func RemoveNumbered(prefix string) {
	dir, begin := filepath.Split(prefix)
	if !filepath.IsAbs(dir) || begin == "" {
		return
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	names, _ := listDir(root, -1)
	for _, name := range names {
		number, is := strings.CutPrefix(name, begin)
		if !is || number == "" || strings.Trim(number, "0123456789") != "" {
			continue
		}
		if f, err := root.Lstat(name); err == nil && f.Mode().IsRegular() &&
			f.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid()) {
			_ = root.Remove(name)
		}
	}
}
