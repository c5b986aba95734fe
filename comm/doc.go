// Package comm runs collectives among the ranks of a job from Go: AllReduce, Broadcast, AllGather and others, as in MPI
// and torch.distributed. On CPUs they use shared memory within a host and TCP between hosts. On GPUs they use NCCL or
// RCCL.
//
//	g, err := comm.Join(ctx)
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer g.Close()
//	err = comm.AllReduce(ctx, g, gradients, gradients, comm.Avg) // in place
//
// [Join] reads the rank and the world size from the environment. The same program runs under gorun, torchrun, mpirun
// and srun, or without a launcher as a group of one.
//
// # Calls
//
// All ranks of a group must make the same calls in the same order. A call blocks until its result is in the caller's
// buffer. The operations that end in Async, such as [AllReduceAsync], return [Work] at once instead, so that you can
// compute in the meantime. The calls of one group run one after the other in the order in which they are made, from any
// goroutine. Groups that [Group.Split] returns are independent of each other.
//
// Buffers are Go slices of a [Number] type. To run an operation in place, pass the same slice as send and recv.
// Otherwise, buffers must not overlap; comm does not check this. Do not use a buffer until its call ends.
//
// # Errors
//
// The first error ends a group: its later calls fail, and ranks that lost each other do not reconnect. You can still
// call Close, and join a new group. Invalid arguments, such as wrong lengths or an unknown rank, are rejected before
// anything is sent, and the group stays usable.
//
// Use errors.As to get the errors that name ranks. [PeerError] means that a process died, [TimeoutError] that ranks did
// not arrive within [WithTimeout], and [MismatchError] that ranks made different calls. If the root of a call waits for
// no rank, the call can succeed on some ranks although another rank made a different call. They get the error in the
// next call that waits for all ranks.
//
// # Determinism
//
// On CPUs every element is reduced in rank order, independent of timing. Equal inputs on equal ranks therefore give
// equal bits on every rank. Float16 and BFloat16 are accumulated in float32 and rounded once. Min and Max return NaN if
// an input is NaN.
//
// Over several hosts, the ranks of each host are reduced first, in rank order. The hosts' results are then reduced in
// the order of the hosts' lowest ranks. Equal inputs with an equal placement of ranks give equal bits. 16-bit floats
// are rounded once on each host with several ranks, and once between the hosts. If all hosts have as many ranks, Avg
// of Float16 averages on each host first, because a sum can be too large for it.
//
// # Several hosts
//
// Ranks on different hosts connect over TCP, at ports that the system chooses. If possible, they use the network that
// connects each host to the store. They prove to each other that they have the same key, from gorun or [WithKey]. A
// group over several hosts without a key is an error. The data is not encrypted. A store that rank 0 serves for such a
// group accepts every host that can reach its port.
//
// # cgo
//
// The back ends are written in C. Without cgo the package builds, but Join returns an error.
package comm
