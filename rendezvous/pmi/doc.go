// Package pmi serves PMI-1 and PMI-2, by which the ranks of MPICH, Intel MPI, MVAPICH and
// their like find each other. Nothing of theirs is needed on the node.
//
// # The protocols
//
// A rank inherits one end of a pair of stream sockets as PMI_FD. It asks, and is answered,
// in lines:
//
//	client                                      server
//	  | -- cmd=init pmi_version=1 pmi_subversion=1 -> |
//	  | <- cmd=response_to_init pmi_version=1 … rc=0 - |
//	  | -- cmd=get_maxes ----------------------------> |
//	  | <- cmd=maxes kvsname_max=64 … rc=0 ----------- |
//	  | -- cmd=put kvsname=K key=k value=v ----------> |
//	  | <- cmd=put_result rc=0 msg=success ----------- |
//	  | -- cmd=barrier_in ---------------------------> |
//	  |      …                                         |   until all ranks of the world have come
//	  | <- cmd=barrier_out --------------------------- |
//	  | -- cmd=get kvsname=K key=k ------------------> |
//	  | <- cmd=get_result rc=0 msg=success value=v --- |
//	  | -- cmd=finalize -----------------------------> |
//	  | <- cmd=finalize_ack rc=0 --------------------- |
//
// Who asks init for version 2 goes on in PMI-2: the length of a message in six bytes of
// digits, then "cmd=NAME;key=value;…;", both ways. After finalize another init may follow.
//
// A world's keys are what its ranks put. At a barrier of all, each node sends the others
// what was put there since the last one, in one message, so that later every node answers
// any get by itself.
//
// # Nobody is trusted
//
// A rank that sends what no client sends is told so and disconnected, and the launcher
// hears why ([world.Launcher].Broken). Each of its requests, what it puts and what it
// leaves unread has a limit; nothing that it does or leaves undone holds up another
// rank, save one that waits for it.
package pmi
