//go:build !cgo

package nvml

import "gorun/placement/gpufacts"

// Linked says whether this program can ask NVIDIA's library at all.
const Linked = false

// Ask learns nothing: this program was built without cgo.
func Ask() gpufacts.Facts {
	return gpufacts.Facts{Error: "this program was built without cgo"}
}
