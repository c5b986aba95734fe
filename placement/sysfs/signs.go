package sysfs

import (
	"io/fs"
	"strings"

	"gorun/placement/gpufacts"
)

// These files indicate NVIDIA GPUs that no other file describes. WSL has one device file for all GPUs,
// and a library in a separate folder. gVisor has device files but no driver files.
const (
	wslDevice  = "dev/dxg"
	wslLibrary = "usr/lib/wsl/lib/libnvidia-ml.so.1"
	controller = "dev/nvidiactl"
)

// nvidiaParts has a folder for each MIG instance of a GPU: gpu0/mig/gi7. Source: NVIDIA Multi-Instance
// GPU User Guide, device nodes.
const nvidiaParts = "proc/driver/nvidia/capabilities"

// NVIDIASigns checks this machine's files for signs of NVIDIA GPUs that the files do not fully
// describe.
func NVIDIASigns() gpufacts.Signs { return NVIDIASignsFS(disk("/")) }

// NVIDIASignsFS is like NVIDIASigns, for a file tree.
func NVIDIASignsFS(root fs.FS) gpufacts.Signs {
	r := &reader{root: root}
	windows := r.exists(wslDevice) && r.exists(wslLibrary)
	sandbox := r.exists(controller) && !r.exists(nvidiaDir)
	return gpufacts.Signs{Hidden: windows || sandbox, Divided: r.divided()}
}

// divided reports whether a GPU has MIG instances. A GPU with MIG enabled but without instances does
// not count.
func (r *reader) divided() bool {
	for _, gpu := range r.names(nvidiaParts) {
		for _, part := range r.names(nvidiaParts + "/" + gpu + "/mig") {
			if strings.HasPrefix(gpu, "gpu") && strings.HasPrefix(part, "gi") {
				return true
			}
		}
	}
	return false
}
