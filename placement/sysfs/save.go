package sysfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"gorun/placement"
)

// saved selects the facts of a saved machine.
var saved = Needs{Topology: true, NICs: true, Links: true, Driverless: true}

// Save copies the files that [Read] reads on this machine into a new folder. [ReadSaved] returns the
// same Machine from that folder, for a bug report or to try gorun's placement elsewhere. If gpus is
// not empty, Save adds facts that the files lack: memory and links.
//
// Save omits or replaces everything that identifies the machine, its owner or its network. Examples
// are serial numbers, UUIDs, MAC and IP addresses, and cgroups.
func Save(dir string, gpus []placement.GPU) error {
	allowed, err := Affinity()
	if err != nil {
		return err
	}
	return SaveFS(disk("/"), allowed, gpus, dir)
}

// SaveFS is like Save, for a file tree and its allowed CPUs.
func SaveFS(root fs.FS, allowed placement.CPUSet, gpus []placement.GPU, dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil { // #nosec G301 -- what the umask leaves is the user's choice
		return fmt.Errorf("save the machine: %w", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		return errors.Join(fmt.Errorf("save the machine: %s is not empty: name a new folder", dir), err)
	}
	tree := record(root, allowed)
	if err := tree.addGPUs(gpus); err != nil {
		return fmt.Errorf("save the machine: %w", err)
	}
	if err := tree.write(dir); err != nil {
		return fmt.Errorf("save the machine: %w", err)
	}
	return nil
}

// ReadSaved reads a machine from a folder of [Save]. Links cannot lead outside the folder.
func ReadSaved(dir string, needs Needs) (placement.Machine, error) {
	root, opened, err := openSaved(dir)
	if err != nil {
		return placement.Machine{}, fmt.Errorf("%s is not a saved machine: %w", dir, err)
	}
	defer func() { _ = opened.Close() }()
	status, err := fs.ReadFile(root, "proc/self/status")
	if err != nil {
		return placement.Machine{}, fmt.Errorf("%s is not a saved machine: %w", dir, err)
	}
	allowed, err := placement.ParseCPUSet(field(string(status), "Cpus_allowed_list:"))
	if err != nil {
		return placement.Machine{}, fmt.Errorf("%s/proc/self/status: %w", dir, err)
	}
	m := ReadFS(root, allowed, needs)
	if text, err := fs.ReadFile(root, gpuFile); err == nil && needs.Topology {
		if err := completeGPUs(m.GPUs, text); err != nil {
			return placement.Machine{}, fmt.Errorf("%s/%s: %w", dir, gpuFile, err)
		}
	}
	return m, nil
}

// gpuFile is an additional file of a saved machine. It has the GPUs as JSON, including facts from a
// vendor's library.
const gpuFile = "gpus.json"

// completeGPUs adds the facts in the file to GPUs.
func completeGPUs(gpus []placement.GPU, text []byte) error {
	var saved []placement.GPU
	if err := json.Unmarshal(text, &saved); err != nil {
		return err
	}
	for i := range gpus {
		g := &gpus[i]
		for _, s := range saved {
			if s.PCI == g.PCI {
				s.Index, s.Vendor, s.UUID, s.Bus, s.MIG = g.Index, g.Vendor, g.UUID, g.Bus, g.MIG
				*g = s
			}
		}
	}
	return nil
}

func (r *recorder) addGPUs(gpus []placement.GPU) error {
	if len(gpus) == 0 {
		return nil
	}
	keptLines := slices.Clone(gpus)
	for i := range keptLines {
		keptLines[i].UUID, keptLines[i].Bus, keptLines[i].MIG = "", nil, nil
	}
	text, err := json.MarshalIndent(keptLines, "", " ")
	r.files[gpuFile] = string(text) + "\n"
	return err
}

// recorder is a file tree that records all reads.
type recorder struct {
	fs.FS
	files map[string]string
	links map[string]string // to their targets, from the tree's root
	seen  []string          // names of existing files
	names map[string]string // replacements of confidential names

	telling *regexp.Regexp
}

// record reads a machine and returns the files read, without confidential data.
func record(root fs.FS, allowed placement.CPUSet) *recorder {
	r := &recorder{
		FS: root, files: map[string]string{}, links: map[string]string{}, names: map[string]string{},
		telling: regexp.MustCompile(telling),
	}
	ReadFS(r, allowed, saved)
	_, asked := r.files["proc/self/mountinfo"]
	if inside := (&reader{root: root}).inContainer(); asked && inside {
		r.files["run/.containerenv"] = ""
	}
	for name, text := range r.files {
		if r.files[name] = reduce(name, text); r.files[name] == "" && text != "" {
			delete(r.files, name)
		}
	}
	r.addLimits(ReadFS(root, allowed, Needs{CPUs: true, Memory: true}))
	status := r.files["proc/self/status"]
	r.files["proc/self/status"] = fmt.Sprintf("Cpus_allowed_list:\t%s\n%s", allowed, status)
	return r
}

// addLimits writes the cgroup limits as those of a single group, because group names can identify
// users and jobs.
func (r *recorder) addLimits(m placement.Machine) {
	r.files["proc/self/cgroup"] = "0::/\n"
	r.files["sys/fs/cgroup/cgroup.procs"] = ""
	if m.Quota > 0 {
		r.files["sys/fs/cgroup/cpu.max"] = fmt.Sprintf("%d 100000\n", int64(m.Quota*100000))
	}
	if m.MemoryLimit > 0 {
		r.files["sys/fs/cgroup/memory.max"] = fmt.Sprintln(m.MemoryLimit)
	}
}

// keptLines are the lines to keep of long files.
var keptLines = map[string][]string{
	"status":      {"Mems_allowed_list:"},
	"meminfo":     {"MemTotal:", "Node "},
	"information": {"Model:", "Device Minor:"},
	"uevent":      {"PCI_CLASS=", "PCI_ID=", "PCI_SLOT_NAME="},
	"properties": {
		"cpu_cores_count ", "simd_count ", "domain ", "location_id ", "type ", "node_from ", "node_to ", "weight ",
	},
	"mountinfo": {},
}

// reduce keeps only the lines of a file that are in use and not confidential. It replaces addresses
// with documentation addresses (RFC 3849 and 5737).
func reduce(name, text string) string {
	switch path.Base(path.Dir(name)) {
	case "gids":
		switch {
		case strings.HasPrefix(text, "0000:0000:0000:0000:0000:ffff:"):
			return "0000:0000:0000:0000:0000:ffff:c000:0201\n"
		case strings.HasPrefix(text, "fe80:"):
			return "fe80:0000:0000:0000:0000:0000:0000:0001\n"
		case strings.Trim(text, "0:\n") != "":
			return "2001:0db8:0000:0000:0000:0000:0000:0001\n"
		}
	case "types":
		return text
	}
	prefixes, isLong := keptLines[path.Base(name)]
	if !isLong {
		return text
	}
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(line, p) }) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// telling matches identifiers of a machine in a file's name. They are UUIDs (of Hyper-V devices) and
// hardware addresses (in interface names such as "enx…").
const telling = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{12,}`

// anonymous replaces confidential parts of a name with a number.
func (r *recorder) anonymous(name string) string {
	return r.telling.ReplaceAllStringFunc(name, func(id string) string {
		if r.names[id] == "" {
			r.names[id] = fmt.Sprintf("id%d", len(r.names))
		}
		return r.names[id]
	})
}

// write creates the files of the folder, then the links between them.
func (r *recorder) write(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		text := r.files[name]
		name = r.anonymous(r.resolve(name))
		if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
			return err
		}
		if err := root.WriteFile(name, []byte(r.anonymous(text)), 0o666); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.links)) {
		if err := r.writeLink(root, name); err != nil {
			return err
		}
	}
	for _, name := range r.seen {
		name = r.anonymous(r.resolve(name))
		if _, err := root.Lstat(name); err == nil {
			continue
		}
		if err := root.MkdirAll(name, 0o777); err != nil {
			return err
		}
	}
	return nil
}

func (r *recorder) writeLink(root *os.Root, name string) error {
	target := r.anonymous(r.links[name])
	if err := root.MkdirAll(target, 0o777); err != nil {
		return err
	}
	name = r.anonymous(name)
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	return root.Symlink(strings.Repeat("../", strings.Count(name, "/"))+target, name)
}

// resolve follows the links in a name.
func (r *recorder) resolve(name string) string {
	for i := range len(name) {
		if name[i] == '/' {
			if target := r.links[name[:i]]; target != "" {
				return r.resolve(target + name[i:])
			}
		}
	}
	return name
}

// ReadFile reads and records a file.
func (r *recorder) ReadFile(name string) ([]byte, error) {
	data, err := fs.ReadFile(r.FS, name)
	if err == nil {
		r.files[name] = string(data)
	}
	return data, err
}

// Stat reports whether a file exists.
func (r *recorder) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(r.FS, name)
	if err == nil {
		r.seen = append(r.seen, name)
	}
	return info, err
}

// ReadDir lists and records a folder.
func (r *recorder) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(r.FS, name)
	for _, e := range entries {
		r.seen = append(r.seen, name+"/"+e.Name())
	}
	return entries, err
}

// ReadLink returns the target of a link. It records only the position of a device, starting at its
// host bridge.
func (r *recorder) ReadLink(name string) (string, error) {
	target, err := fs.ReadLink(r.FS, name)
	if err != nil {
		return target, err
	}
	_, place, ok := strings.Cut(path.Join(path.Dir(name), target), "sys/devices/")
	if !ok {
		return target, nil
	}
	parts := strings.Split(place, "/")
	if i := slices.IndexFunc(parts, isRoot); i > 0 {
		parts = parts[i:]
	}
	r.links[name] = "sys/devices/" + strings.Join(parts, "/")
	return target, nil
}

// Lstat completes the interface of io/fs.
func (r *recorder) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(r.FS, name) }
