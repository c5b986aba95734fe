// Package nccllog reads what NCCL and RCCL print into the output of ranks, and makes facts of it: which version runs,
// over which connections, by which network interfaces, and what it warned of.
//
// The wording is that of NCCL 2.19 to 2.30 and RCCL 2.18 to 2.27. A line has a timestamp only if
// NCCL_DEBUG_TIMESTAMP_LEVELS asks for one (warnings always do from 2.26 on), and stands behind an empty line if it is
// a warning:
//
//	node1:4242:4250 [0] NCCL INFO Using network IB
//	[2026-11-22 16:58:47] node1:4242:4250 [0] misc/socket.cc:586 (ncclSocketInit) NCCL WARN Call to bind failed
//	NCCL version 2.30.7+cuda13.3
//
// How much there is depends on NCCL_DEBUG: VERSION and WARN give the version and warnings, INFO the rest.
package nccllog
