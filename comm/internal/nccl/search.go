//go:build cgo

package nccl

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// family describes a collectives library and its GPU runtime.
type family struct {
	name     string   // "nccl" or "rccl"
	vendor   string   // for messages
	prefix   string   // prefix of the runtime's function names
	library  string   // file name of the collectives library
	runtimes []string // file names of the runtime, newest first
	// Directories with the library and the runtime, below a Python environment's site-packages and in the whole system.
	libraryBelow, runtimeBelow []string
	system                     []string
}

// families lists the implementations in search order.
var families = []family{
	{
		name: "nccl", vendor: "NVIDIA", prefix: "cuda", library: "libnccl.so.2",
		runtimes:     []string{"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"},
		libraryBelow: []string{"nvidia/nccl/lib"},
		runtimeBelow: []string{"nvidia/cu13/lib", "nvidia/cuda_runtime/lib"},
		system:       []string{"/usr/local/cuda/lib64"},
	},
	{
		name: "rccl", vendor: "AMD", prefix: "hip", library: "librccl.so.1",
		runtimes:     []string{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
		libraryBelow: []string{"torch/lib", "_rocm_sdk_libraries/lib"},
		runtimeBelow: []string{"torch/lib", "_rocm_sdk_core/lib"},
		system:       []string{"/opt/rocm/lib"},
	},
}

// familyOf derives the family from a file name. The default is NVIDIA's.
func familyOf(file string) family {
	base := filepath.Base(file)
	if strings.Contains(base, "rccl") || strings.Contains(base, "amdhip") {
		return families[1]
	}
	return families[0]
}

// candidates returns the arguments to try with dlopen for one of names, best first. If the user names a file or
// directory, there are no other candidates. A bare name makes the loader search: LD_LIBRARY_PATH, ld.so.cache and the
// libraries that the process has loaded.
func candidates(named string, names, below, system, sites []string) []string {
	if named != "" {
		if info, err := os.Stat(named); err != nil || !info.IsDir() {
			return []string{named}
		}
		return joined([]string{named}, names)
	}
	found := append([]string{}, names...)
	for _, site := range sites {
		for _, folder := range below {
			found = append(found, present(joined([]string{filepath.Join(site, folder)}, names))...)
		}
	}
	return append(found, present(joined(system, names))...)
}

func joined(folders, names []string) []string {
	var all []string
	for _, folder := range folders {
		for _, name := range names {
			all = append(all, filepath.Join(folder, name))
		}
	}
	return all
}

// present returns the files that exist, so that messages list no unexpected paths.
func present(files []string) []string {
	var there []string
	for _, file := range files {
		if _, err := os.Stat(file); err == nil {
			there = append(there, file)
		}
	}
	return there
}

// sitePackages returns the directories with Python packages: of the active environment, of python3 in PATH, and of the
// user. It does not run Python, because that takes longer than Join.
func (s surroundings) sitePackages() []string {
	var prefixes []string
	for _, prefix := range []string{s.virtualEnv, s.conda} {
		if prefix != "" {
			prefixes = append(prefixes, prefix)
		}
	}
	if python := executable(s.path, "python3"); python != "" {
		// A virtual environment's python3 links to that of the system. Search its own directory first, then the
		// target's.
		prefixes = append(prefixes, filepath.Dir(filepath.Dir(python)))
		if real, err := filepath.EvalSymlinks(python); err == nil {
			prefixes = append(prefixes, filepath.Dir(filepath.Dir(real)))
		}
	}
	if s.home != "" {
		prefixes = append(prefixes, filepath.Join(s.home, ".local"))
	}
	return siteFolders(append(prefixes, "/usr/local"))
}

// siteFolders expands the prefixes of Python installations, without duplicates.
func siteFolders(prefixes []string) []string {
	var folders []string
	seen := map[string]bool{}
	for _, prefix := range prefixes {
		for _, pattern := range []string{
			"lib/python3*/site-packages", "lib/python3*/dist-packages",
			"lib64/python3*/site-packages",
		} {
			matches, _ := fs.Glob(os.DirFS(prefix), pattern) // the pattern is valid
			for _, match := range matches {
				match = filepath.Join(prefix, match)
				if real, err := filepath.EvalSymlinks(match); err == nil && !seen[real] {
					seen[real] = true
					folders = append(folders, match)
				}
			}
		}
	}
	return folders
}

func executable(path, name string) string {
	for _, folder := range filepath.SplitList(path) {
		file := filepath.Join(folder, name)
		if info, err := os.Stat(file); filepath.IsAbs(folder) && err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			return file
		}
	}
	return ""
}

// mayBe reports whether a file named by the user can belong to the family. "" and directories can.
func (f family) mayBe(named string) bool {
	if named == "" || familyOf(named).name == f.name {
		return true
	}
	info, err := os.Stat(named)
	return err == nil && info.IsDir()
}
