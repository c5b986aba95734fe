package sysfs

import (
	"io/fs"
	"strings"

	"gorun/placement/gpufacts"
)

// Files by which there may be GPUs of NVIDIA that no file describes: Windows shows
// a Linux guest (WSL) its GPUs by one device file and a library in a folder of its
// own; gVisor shows device files but no files of the driver.
const (
	wslDevice  = "dev/dxg"
	wslLibrary = "usr/lib/wsl/lib/libnvidia-ml.so.1"
	controller = "dev/nvidiactl"
)

// nvidiaParts has a folder for each part of a GPU that is divided by MIG:
// gpu0/mig/gi7. Source: NVIDIA's Multi-Instance GPU user guide, device nodes.
const nvidiaParts = "proc/driver/nvidia/capabilities"

// NVIDIASigns tells what this machine's files say of NVIDIA's GPUs without telling
// more.
func NVIDIASigns() gpufacts.Signs { return NVIDIASignsFS(disk("/")) }

// NVIDIASignsFS is NVIDIASigns for a file tree.
func NVIDIASignsFS(root fs.FS) gpufacts.Signs {
	r := &reader{root: root}
	windows := r.exists(wslDevice) && r.exists(wslLibrary)
	sandbox := r.exists(controller) && !r.exists(nvidiaDir)
	return gpufacts.Signs{Hidden: windows || sandbox, Divided: r.divided()}
}

// divided reports whether a GPU has parts. On one that could be divided, and is
// not, there is nothing to know.
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
