//go:build !cgo

package nvml

import "gorun/placement/gpufacts"

// Linked reports whether this program can query NVIDIA's library.
const Linked = false

// Ask returns an error in the facts, because this program was built without cgo.
func Ask() gpufacts.Facts {
	return gpufacts.Facts{Error: "gorun was built without cgo"}
}
