// Package ncclhost reads what of this host the right settings of NCCL depend on: files
// of settings that count before what a launcher adds, and, where there are GPUs, limits,
// the container, the library's version. A job's start waits for it, so that nothing is
// read that takes long, and next to nothing where there are no GPUs.
package ncclhost

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"gorun/env/nccl"
)

// Ranks is what is known of the ranks.
type Ranks struct {
	// Getenv looks their variables up, "" for none that is set.
	Getenv func(name string) string
	// PythonPrefix is the environment of the Python that starts them, "" for other
	// programs.
	PythonPrefix string
	// Dir is where they begin; it is asked for only where a file is named from there. nil:
	// not known.
	Dir func() string
}

// Read reads this host.
func Read(ranks Ranks) nccl.Host { return read(disk{}, ofKernel{}, ranks) }

// kernel answers what is no file.
type kernel interface {
	// MemoryPolicy is why programs must not choose a memory policy, nil if they may.
	MemoryPolicy() error
	// Shm is the size of /dev/shm in bytes, -1 where there is none.
	Shm() int64
	// Memlock is the soft limit in bytes, -1 for none; EndlessStack that the stack has none.
	Memlock() int64
	EndlessStack() bool
	// OpenVerbs opens a file of an RDMA device as programs do.
	OpenVerbs(name string) error
}

// mostConf is how much of a file of settings is read, in bytes.
const mostConf = 64 << 10

// gpuSigns are what GPUs of NVIDIA or AMD do not work without; the third is Windows'.
var gpuSigns = []string{"dev/nvidiactl", "dev/kfd", "dev/dxg"}

func read(root fs.FS, k kernel, ranks Ranks) (h nccl.Host) {
	h.Shm, h.Memlock = -1, -1
	h.GPUs = slices.ContainsFunc(gpuSigns, func(name string) bool { return exists(root, name) })
	kind := nccl.NCCL
	if exists(root, "dev/kfd") && !exists(root, "dev/nvidiactl") {
		kind = nccl.RCCL
	}
	for _, name := range nccl.ConfFiles(kind, ranks.Getenv, ranks.Getenv("HOME")) {
		file := name
		if !path.IsAbs(file) && ranks.Dir != nil {
			file = path.Join(ranks.Dir(), file)
		}
		if !path.IsAbs(file) {
			continue
		}
		if text, err := readSome(root, path.Clean(file)[1:]); err == nil {
			h.Conf = append(h.Conf, nccl.ConfFile{Path: name, Text: text})
		}
	}
	if !h.GPUs {
		return h
	}
	h.Shm, h.Memlock, h.EndlessStack = k.Shm(), k.Memlock(), k.EndlessStack()
	h.NoMemoryPolicy = k.MemoryPolicy() != nil
	h.Container, h.Cloud = container(root, ranks.Getenv), cloud(root)
	h.OnlyLoopback = onlyLoopback(root)
	h.NoVerbs, h.NoVerbsWhy = noVerbs(root, k)
	h.ROCm = line(root, "opt/rocm/.info/version")
	h.GFX = gfx(root)
	if files := nccl.FindLibraries(root, ranks.Getenv, ranks.PythonPrefix); len(files) > 0 {
		h.Library = Version(root, files[0])
	}
	return h
}

func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}

// readSome reads the beginning of a regular file; others may never end.
func readSome(root fs.FS, name string) (string, error) {
	if info, err := fs.Stat(root, name); err != nil || !info.Mode().IsRegular() { // to open a pipe may take for ever
		return "", fs.ErrInvalid
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	buffer := make([]byte, mostConf)
	n := 0
	for n < len(buffer) {
		m, err := f.Read(buffer[n:])
		if n += m; err != nil || m == 0 {
			break
		}
	}
	return string(buffer[:n]), nil
}

// line is the first line of a file, "" where it cannot be read.
func line(root fs.FS, name string) string {
	text, err := readSome(root, name)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(first)
}

// container names what the host is, by the files and variables that containers have.
func container(root fs.FS, getenv func(string) string) string {
	switch {
	case getenv("KUBERNETES_SERVICE_HOST") != "":
		return "Kubernetes"
	case exists(root, ".dockerenv"):
		return "Docker"
	case exists(root, "run/.containerenv"):
		return "Podman"
	case exists(root, "singularity"), exists(root, ".singularity.d"):
		return "Apptainer"
	}
	return ""
}

// cloud is who runs the virtual machine. Source: what the vendors document of the
// firmware's words.
func cloud(root fs.FS) string {
	const dmi = "sys/class/dmi/id/"
	vendor := line(root, dmi+"sys_vendor")
	switch {
	case vendor == "Amazon EC2":
		return vendor
	case vendor == "Google", line(root, dmi+"product_name") == "Google Compute Engine":
		return "Google Compute Engine"
	case line(root, dmi+"chassis_asset_tag") == "7783-7084-3265-9085-8269-3286-77":
		return "Azure"
	}
	return ""
}

// onlyLoopback reports whether no network interface is up but lo.
func onlyLoopback(root fs.FS) bool {
	const folder = "sys/class/net"
	entries, err := fs.ReadDir(root, folder)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if state := line(root, folder+"/"+e.Name()+"/operstate"); e.Name() != "lo" && (state == "up" || state == "unknown") {
			return false
		}
	}
	return len(entries) > 0
}

// noVerbs reports whether there are RDMA devices, of which no rank can use one.
func noVerbs(root fs.FS, k kernel) (none bool, why string) {
	devices, err := fs.ReadDir(root, "sys/class/infiniband")
	if err != nil || len(devices) == 0 {
		return false, ""
	}
	why = "there is no /dev/infiniband/uverbs0"
	files, _ := fs.ReadDir(root, "sys/class/infiniband_verbs")
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), "uverbs") {
			continue
		}
		err := k.OpenVerbs("/dev/infiniband/" + f.Name())
		if err == nil {
			return false, ""
		}
		why = "/dev/infiniband/" + f.Name() + ": " + err.Error()
	}
	return true, why
}

// gfx lists the kinds of AMD's GPUs: gfx_target_version 90010 is gfx90a, 110000
// gfx1100. Source: the kernel's amdkfd and LLVM's names of targets, whose last digit is
// hexadecimal.
func gfx(root fs.FS) (kinds []string) {
	const folder = "sys/class/kfd/kfd/topology/nodes"
	nodes, _ := fs.ReadDir(root, folder)
	for _, node := range nodes {
		text, _ := readSome(root, folder+"/"+node.Name()+"/properties")
		for l := range strings.Lines(text) {
			number, ok := strings.CutPrefix(l, "gfx_target_version ")
			n, err := strconv.Atoi(strings.TrimSpace(number))
			if !ok || err != nil || n == 0 {
				continue
			}
			kind := "gfx" + strconv.Itoa(n/10000) + strconv.Itoa(n/100%100) + strconv.FormatInt(int64(n%100), 16)
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

// Version is that of a library's file, by its own name (libnccl.so.2.27.3) or by that of
// the Python package beside it, "" where they do not tell.
func Version(root fs.FS, file string) string {
	name := strings.TrimPrefix(file, "/")
	if target, err := fs.ReadLink(root, name); err == nil {
		file = target
	}
	if _, text, ok := strings.Cut(path.Base(file), "libnccl.so."); ok && strings.Count(text, ".") == 2 {
		return text
	}
	packages, _ := fs.Glob(root, path.Join(path.Dir(name), "../../../nvidia_nccl_cu*.dist-info"))
	for _, p := range packages {
		text := strings.TrimSuffix(path.Base(p), ".dist-info")
		return text[strings.LastIndexByte(text, '-')+1:]
	}
	return ""
}
