// Package pmix serves MPI ranks that speak PMIx, as those of Open MPI do: natively, in the
// encoding "v3", which every client from PMIx 3 on still carries, without any library of
// PMIx's on the node.
//
// A rank connects over TCP to its node's server, of which it knows by PMIX_SERVER_URI3, and
// says who it is in one message, the handshake. From then on each message is
//
//	int32 sender's index | uint32 tag | uint32 length | 4 bytes of padding | body
//
// in big endian (the handshake's header alone is in the host's byte order). A request's body
// is a group {command} and what belongs to that command; the reply carries its tag. Requests
// of one rank may be answered in any order.
//
// Sources: OpenPMIx v3.2.5, v4.2.2, v5.0.11 and v6.1.0, src/mca/bfrops, src/mca/ptl/base,
// src/client and src/server; no code of theirs is here.
package pmix
