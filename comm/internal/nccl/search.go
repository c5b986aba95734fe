//go:build cgo

package nccl

import (
	"os"
	"path/filepath"
	"strings"
)

// family is a pair of libraries that belong together.
type family struct {
	name     string   // "nccl" or "rccl"
	vendor   string   // for messages
	prefix   string   // of the runtime's functions
	library  string   // the collectives
	runtimes []string // newest first
	// Folders that hold the library and the runtime, below a Python environment's site-packages and in the whole system.
	libraryBelow, runtimeBelow []string
	system                     []string
}

// families are the two implementations, in the order in which they are tried.
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

// familyOf tells by a file's name whose library it is; NVIDIA's where the name says nothing.
func familyOf(file string) family {
	base := filepath.Base(file)
	if strings.Contains(base, "rccl") || strings.Contains(base, "amdhip") {
		return families[1]
	}
	return families[0]
}

// candidates lists what to give to dlopen for one of names, best first. Who names a file or folder gets that or an
// error, never another one. A bare name lets the loader search: LD_LIBRARY_PATH, ld.so.cache, and what the process
// holds already.
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

// joined is every name in every folder.
func joined(folders, names []string) []string {
	var all []string
	for _, folder := range folders {
		for _, name := range names {
			all = append(all, filepath.Join(folder, name))
		}
	}
	return all
}

// present keeps the files that exist, so that messages do not list what nobody expects.
func present(files []string) []string {
	var there []string
	for _, file := range files {
		if _, err := os.Stat(file); err == nil {
			there = append(there, file)
		}
	}
	return there
}

// sitePackages lists the folders that hold Python packages: of the active environment, of the python3 in PATH, of the
// user. No Python is run for it: starting one takes longer than joining a group.
func (s surroundings) sitePackages() []string {
	var prefixes []string
	for _, prefix := range []string{s.virtualEnv, s.conda} {
		if prefix != "" {
			prefixes = append(prefixes, prefix)
		}
	}
	if python := executable(s.path, "python3"); python != "" {
		// A virtual environment's python3 is a link to the system's: its own folder counts first, then the one it comes from.
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

// siteFolders expands the prefixes of Python installations, each folder once.
func siteFolders(prefixes []string) []string {
	var folders []string
	seen := map[string]bool{}
	for _, prefix := range prefixes {
		for _, pattern := range []string{
			"lib/python3*/site-packages", "lib/python3*/dist-packages",
			"lib64/python3*/site-packages",
		} {
			// the pattern is right; a prefix with [ in it finds nothing
			matches, _ := filepath.Glob(filepath.Join(prefix, pattern))
			for _, match := range matches {
				if real, err := filepath.EvalSymlinks(match); err == nil && !seen[real] {
					seen[real] = true
					folders = append(folders, match)
				}
			}
		}
	}
	return folders
}

// executable finds a program in a PATH.
func executable(path, name string) string {
	for _, folder := range filepath.SplitList(path) {
		file := filepath.Join(folder, name)
		if info, err := os.Stat(file); filepath.IsAbs(folder) && err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			return file
		}
	}
	return ""
}

// mayBe reports whether a file that the user named may belong to the family; "" and a folder may.
func (f family) mayBe(named string) bool {
	if named == "" || familyOf(named).name == f.name {
		return true
	}
	info, err := os.Stat(named)
	return err == nil && info.IsDir()
}
