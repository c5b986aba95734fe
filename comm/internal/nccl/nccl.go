// Package nccl runs comm's collectives on GPUs: by NVIDIA's NCCL, or by AMD's RCCL, which has the same functions.
//
// Neither library nor its headers are needed to build gorun. At run time libnccl.so.2 (librccl.so.1) and the CUDA
// runtime libcudart.so (HIP's libamdhip64.so) are opened with dlopen from where the environment, the dynamic loader or
// a Python wheel have them.
//
// One rank has one GPU. [Library.Join] makes a group's rank, a [Backend]; [Library.Alloc] gives memory of a GPU, a
// [DeviceBuffer]. Calls may name memory of DeviceBuffers, which NCCL then reads and writes directly, or any other
// memory, which counts as the host's and is copied to the GPU and back around the call.
package nccl

import (
	"fmt"
	"strings"
	"time"

	"gorun/comm/internal/backend"
)

// Config describes one rank of a group to be.
type Config struct {
	Rank, Ranks int
	// Device is this rank's GPU, as the process counts those that it sees: 0 … Devices()-1. NCCL refuses two ranks on
	// one GPU.
	Device int
	// Timeout is how long joining, and each call, may take; 0 is without limit.
	Timeout time.Duration
	// Exchange gives NCCL's unique ids to all.
	Exchange backend.Exchange
}

// version is a version of NCCL; RCCL gives that of the NCCL whose functions it has.
type version [3]int

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// MissingError says that a library cannot be had, so that this host's GPUs, if any, cannot be used.
type MissingError struct {
	Library  string   // "libnccl.so.2 or librccl.so.1"
	Variable string   // the variable that can name it
	Tried    []string // in the order of the search: a path where nothing is, or "path: reason"
}

func (e *MissingError) Error() string {
	text := e.Library + " not found"
	if len(e.Tried) > 0 {
		text += " (searched " + strings.Join(e.Tried, ", ") + ")"
	}
	return text + "; " + e.Variable + " can name the file"
}
