// Package ras queries NCCL's RAS port (2.24 and later) for the state of a job's ranks: the number of collectives that
// each has begun, missing answers and errors.
//
// The processes of a job that have a communicator form their own network. On each host they share one listening
// address, NCCL_RAS_ADDR, and the kernel picks one of them for each client. The protocol is lines of text over TCP:
//
//	CLIENT PROTOCOL 2      SERVER PROTOCOL 2
//	TIMEOUT 3              OK
//	SET FORMAT json        OK, from 2.28.7 on, else ERROR: Unknown command …
//	VERBOSE STATUS         the answer, and the end of the connection
//
// The parsers follow recordings of version 2.30.7 (see testdata), and NVIDIA's user guide for older versions.
package ras
