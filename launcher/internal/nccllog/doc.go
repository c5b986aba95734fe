// Package nccllog extracts facts from what NCCL and RCCL log into the output of ranks: their versions, the kinds of
// connections, the network interfaces, and warnings.
//
// It knows the wording of NCCL 2.19 to 2.30 and RCCL 2.18 to 2.27. A line has a timestamp only if
// NCCL_DEBUG_TIMESTAMP_LEVELS enables it (warnings always have one from 2.26 on). An empty line precedes a warning:
//
//	node1:4242:4250 [0] NCCL INFO Using network IB
//	[2026-11-22 16:58:47] node1:4242:4250 [0] misc/socket.cc:586 (ncclSocketInit) NCCL WARN Call to bind failed
//	NCCL version 2.30.7+cuda13.3
//
// NCCL_DEBUG=VERSION and WARN log the version and warnings, INFO the rest.
package nccllog
