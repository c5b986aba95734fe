// Package nccl runs comm's collectives on GPUs through NVIDIA's NCCL, or AMD's RCCL, which has the same functions.
//
// You need neither the library nor its headers to build gorun. At run time the package opens libnccl.so.2
// (librccl.so.1) and the CUDA runtime libcudart.so (HIP's libamdhip64.so) with dlopen. It searches the environment, the
// dynamic loader's paths and Python wheels.
//
// Each rank has one GPU. [Library.Join] returns a group's rank, a [Backend]. [Library.Alloc] returns GPU memory, a
// [DeviceBuffer]. NCCL reads and writes a DeviceBuffer directly. All other memory counts as host memory, which a call
// copies to the GPU and back.
package nccl

import (
	"fmt"
	"strings"
	"time"

	"gorun/comm/internal/backend"
)

// Config describes a rank and the group that it joins.
type Config struct {
	Rank, Ranks int
	// Device is this rank's GPU, from 0 to Devices()-1 in the process's numbering. NCCL rejects two ranks on one GPU.
	Device int
	// Timeout limits Join and each call. 0 means no limit.
	Timeout time.Duration
	// Failed, if set, returns why the group failed, or nil. Join and calls poll it while they wait.
	Failed func() error
	// Exchange distributes NCCL's unique ids.
	Exchange backend.Exchange
}

// version is a version of NCCL. RCCL returns the version of the NCCL that it is compatible with.
type version [3]int

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// MissingError reports that a library is missing, so that GPUs of this host cannot be used.
type MissingError struct {
	Library  string   // "libnccl.so.2 or librccl.so.1"
	Variable string   // the variable that sets its path
	Tried    []string // in search order: a missing path, or "path: reason"
}

func (e *MissingError) Error() string {
	text := e.Library + " not found"
	if len(e.Tried) > 0 {
		text += " (searched " + strings.Join(e.Tried, ", ") + ")"
	}
	return text + "; " + e.Variable + " can name the file"
}
