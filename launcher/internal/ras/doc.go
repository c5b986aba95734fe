// Package ras queries NCCL's RAS port (2.24 and later) for what the ranks of a job are doing: how many collectives each
// has begun, which do not answer, and which report an error.
//
// The processes of a job that have a communicator form a network of their own. On each host they share one listening
// address, NCCL_RAS_ADDR, and the kernel picks one of them for each client. The protocol is lines of text over TCP:
//
//	CLIENT PROTOCOL 2      SERVER PROTOCOL 2
//	TIMEOUT 3              OK
//	SET FORMAT json        OK, from 2.28.7 on, else ERROR: Unknown command …
//	VERBOSE STATUS         the answer, and the end of the connection
//
// The format of the answers is from recordings of version 2.30.7 (see testdata), and from NVIDIA's user guide for older
// versions.
package ras
