// Package ncclhost reads the facts about this host that NCCL's settings depend on: NCCL's configuration files, which
// take precedence over a launcher's settings, and on hosts with GPUs also limits, the container and the library's
// version. A job's start waits for it, so it reads nothing slow, and next to nothing without GPUs.
package ncclhost

import (
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"gorun/env/nccl"
	"gorun/launcher/doctor"
	"gorun/launcher/doctor/inspect"
)

// Ranks describes the ranks on this host.
type Ranks struct {
	// Getenv returns a variable of their environment, "" if unset.
	Getenv func(name string) string
	// PythonPrefix is the installation prefix of the Python that runs them, "" for other programs.
	PythonPrefix string
	// Dir returns their working directory. It is only called for relative file names; nil if unknown.
	Dir func() string
}

// Read reads this host.
func Read(ranks Ranks) nccl.Host { return read(os.DirFS("/"), inspect.Local(), ranks) }

// kernel is the part of inspect.System that is needed.
type kernel interface {
	Limits() map[string]doctor.Limit
	FileSystem(path string) doctor.FileSystem
	Access(path string) string
	Denied() map[string]string
}

// maxConf bounds what is read of a file, in bytes.
const maxConf = 64 << 10

// gpuSigns are device files of NVIDIA and AMD GPUs, and of GPUs in WSL.
var gpuSigns = []string{"dev/nvidiactl", "dev/kfd", "dev/dxg"}

func read(root fs.FS, k kernel, ranks Ranks) (h nccl.Host) {
	h.Shm, h.Memlock = -1, -1
	h.GPUs = slices.ContainsFunc(gpuSigns, func(name string) bool { return exists(root, name) })
	kind := nccl.NCCL
	if exists(root, "dev/kfd") && !exists(root, "dev/nvidiactl") {
		kind = nccl.RCCL
	}
	h.Conf, _ = nccl.ReadConf(root, kind, ranks.Getenv, ranks.Dir)
	if !h.GPUs {
		return h
	}
	if shm := k.FileSystem("/dev/shm"); shm.Error == "" {
		h.Shm = shm.Total
	}
	limits := k.Limits()
	h.Memlock, h.EndlessStack = limits["memlock"].Soft, limits["stack"].Soft < 0
	h.NoMemoryPolicy = k.Denied()["set_mempolicy"] != ""
	h.Container, h.Cloud = inspect.Container(root, ranks.Getenv), cloud(root)
	h.OnlyLoopback = onlyLoopback(root)
	h.NoVerbs, h.NoVerbsWhy = noVerbs(root, k)
	h.ROCm = line(root, "opt/rocm/.info/version")
	h.GFX = gfx(root)
	if files := nccl.FindLibraries(root, ranks.Getenv, ranks.PythonPrefix); len(files) > 0 {
		h.Library = inspect.NCCLVersion(root, files[0])
	}
	h.Torch = torch(root, ranks.PythonPrefix)
	return h
}

// torch returns the version of the PyTorch of a Python, which may be in its system's directory of packages: those that
// pip installed beside those of the distribution.
func torch(root fs.FS, prefix string) string {
	if prefix == "" {
		return ""
	}
	for _, folder := range []string{prefix, path.Join(prefix, "local")} {
		place, err := fs.Sub(root, strings.TrimPrefix(folder, "/")) // whose name may have a [
		if err != nil {
			continue
		}
		packages, _ := fs.Glob(struct{ fs.FS }{place}, "lib/python3*/*-packages/torch-*-info")
		for _, p := range packages { // torch-2.15.0+cu132.dist-info, torch-2.5.1-py3.12.egg-info
			text := strings.TrimSuffix(strings.TrimPrefix(path.Base(p), "torch-"), ".dist-info")
			return text[:strings.IndexAny(text+"+", "+-")]
		}
	}
	return ""
}

func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}

// readSome reads the beginning of a regular file.
func readSome(root fs.FS, name string) (string, error) {
	if info, err := fs.Stat(root, name); err != nil || !info.Mode().IsRegular() { // opening a pipe may block
		return "", fs.ErrInvalid
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxConf)) // what can be read
	return string(text), nil
}

// line returns the first line of a file, "" if it cannot be read.
func line(root fs.FS, name string) string {
	text, err := readSome(root, name)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(first)
}

// cloud names the provider of the virtual machine, or "". Source: the providers' documentation of DMI strings.
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

// onlyLoopback reports whether lo is the only network interface that is up.
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

// noVerbs reports whether there are RDMA devices but ranks can open none, and why.
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
		refused := k.Access("/dev/infiniband/" + f.Name())
		if refused == "" {
			return false, ""
		}
		why = "/dev/infiniband/" + f.Name() + ": " + refused
	}
	return true, why
}

// gfx lists the targets of AMD's GPUs: gfx_target_version 90010 is gfx90a, 110000 is gfx1100. Source: the kernel's
// amdkfd and LLVM's target names, whose last digit is hexadecimal.
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
