//go:build !cgo

package bench

// Linked reports whether this program contains the back ends, which need cgo.
const Linked = false
