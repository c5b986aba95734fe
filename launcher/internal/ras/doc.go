// Package ras asks NCCL's RAS port (2.24 and later) what the ranks of a job are doing: how many collectives each has
// begun, who does not answer, who reports an error.
//
// The processes of a job that have a communicator form a network of their own; each of them listens at the one address
// of NCCL_RAS_ADDR, and the kernel passes a client on to any of them. The protocol is lines of text over TCP:
//
//	CLIENT PROTOCOL 2      SERVER PROTOCOL 2
//	TIMEOUT 3              OK
//	SET FORMAT json        OK, from 2.28.7 on, else ERROR: Unknown command …
//	VERBOSE STATUS         the answer, and the end of the connection
//
// The form of the answers is that of the real library of version 2.30.7, taken down with nothing but the library (see
// testdata), and of NVIDIA's user guide for older ones.
package ras
