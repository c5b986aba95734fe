// Package pmi serves PMI-1 and PMI-2, the protocols that the ranks of MPICH, Intel MPI, MVAPICH and similar
// libraries find each other. No library is needed on the node.
//
// # The protocols
//
// A rank inherits one end of a stream socket pair as PMI_FD. Requests and replies are lines:
//
//	client                                      server
//	  | -- cmd=init pmi_version=1 pmi_subversion=1 -> |
//	  | <- cmd=response_to_init pmi_version=1 … rc=0 - |
//	  | -- cmd=get_maxes ----------------------------> |
//	  | <- cmd=maxes kvsname_max=64 … rc=0 ----------- |
//	  | -- cmd=put kvsname=K key=k value=v ----------> |
//	  | <- cmd=put_result rc=0 msg=success ----------- |
//	  | -- cmd=barrier_in ---------------------------> |
//	  |      …                                         |   until all ranks of the world have entered
//	  | <- cmd=barrier_out --------------------------- |
//	  | -- cmd=get kvsname=K key=k ------------------> |
//	  | <- cmd=get_result rc=0 msg=success value=v --- |
//	  | -- cmd=finalize -----------------------------> |
//	  | <- cmd=finalize_ack rc=0 --------------------- |
//
// A client that requests version 2 in init continues in PMI-2: the length of a message in six bytes of digits, then
// "cmd=NAME;key=value;…;", both ways. After finalize another init may follow.
//
// The keys of a world are what its ranks put. At a barrier of the world each node sends the others what was put there
// since the last one, in one message, so that afterwards every node can answer any get by itself.
//
// # Security
//
// Ranks are not trusted. A malformed request is answered with an error, ends the connection and is reported to the
// launcher ([world.Launcher].Broken). The requests of a rank, what it puts and what it leaves unread have limits.
// Nothing that a rank does or omits delays another, except those that wait for it.
package pmi
