package world

import "fmt"

// SecondError says that a process begins MPI as a rank while another process of the rank is in MPI. No library does
// that by itself: the program has started an MPI program.
type SecondError struct {
	PID, First int
	// Variables are those that make the process take itself for the rank, such as "PMI_*".
	Variables string
}

func (e *SecondError) Error() string {
	return fmt.Sprintf("process %d calls MPI_Init while process %d of the same rank is in MPI: start it with "+
		"MPI_Comm_spawn, or unset %s to run it alone",
		e.PID, e.First, e.Variables)
}
