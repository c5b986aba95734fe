package world

import "fmt"

// SecondError is a process of a rank that begins MPI while another one of the rank is in it.
// No library has said anything wrong: the program has started an MPI program by itself.
type SecondError struct {
	PID, First int
	// Variables are those by which the process takes itself for the rank: "PMI_*".
	Variables string
}

func (e *SecondError) Error() string {
	return fmt.Sprintf("process %d calls MPI_Init while process %d of this rank is in MPI, and cannot be the same rank: "+
		"start it by MPI_Comm_spawn, or without the variables %s to run it alone",
		e.PID, e.First, e.Variables)
}
