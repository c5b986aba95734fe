//go:build !cgo

package nvml

import "gorun/placement"

// Linked says whether this program can ask NVIDIA's library at all.
const Linked = false

// Add adds nothing: this program was built without cgo.
func Add(*placement.Machine) {}
