package spec

import "syscall"

// Signal is a signal to the ranks that run.
type Signal struct {
	Number syscall.Signal
	// Group sends it to each rank's process group, not to its process alone.
	Group bool
	// LeadersFirst, with Group, keeps it from the helpers of a rank until the rank has ended, or its time is over. See
	// process.Leaders.
	LeadersFirst bool
}
