// Package comm runs collectives among the ranks of a job from Go: AllReduce, Broadcast, AllGather and the others that a
// person knows from MPI or torch.distributed, on CPUs through memory that a host's ranks share and TCP between hosts,
// on GPUs through NCCL or RCCL.
//
//	g, err := comm.Join(ctx)
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer g.Close()
//	err = comm.AllReduce(ctx, g, gradients, gradients, comm.Avg) // in place
//
// [Join] reads rank and world size from the environment, so the same program runs under gorun, torchrun, mpirun and
// srun, and alone as a group of one.
//
// # Calls
//
// All ranks of a group make the same calls in the same order. A call blocks until its result is in the caller's buffer;
// for what happens in between, each operation has a twin that returns [Work] at once (AllReduceAsync, …). Calls of
// one group run one after the other in the order in which they were made, whichever goroutine made them; groups made by
// [Group.Split] are independent of each other.
//
// Buffers are Go slices of a [Number] type. Where an operation can be done in place, send and recv are the same slice.
// Buffers may not overlap otherwise, which is not looked for, and belong to the call until it ends.
//
// # Errors
//
// The first error ends a group: ranks that lost each other never find together again. Close works, and a new group can
// be joined. Arguments that are wrong by themselves (lengths, an unknown rank) are refused before anything is sent, and
// the group goes on. The errors that name ranks are [PeerError] (a process died), [TimeoutError] (ranks did not come
// within [WithTimeout]) and [MismatchError] (ranks made different calls), to be taken out by errors.As. A call whose
// root waits for nobody can end well on some ranks though another made a different one: they learn of it in the next
// call that waits for all.
//
// # Same inputs, same bits
//
// On CPUs every element is reduced in rank order, whatever the timing: equal inputs on equal ranks give equal bits, on
// every rank. Float16 and BFloat16 are accumulated in float32 and rounded once. Min and Max give NaN where an input is
// NaN.
//
// Over several hosts the ranks of each host are reduced first, in their order, then the hosts' results in the order of
// their lowest ranks: equal inputs at equal places give equal bits. 16-bit floats are rounded once on each host that
// has several ranks, and once between the hosts.
//
// # Several hosts
//
// Ranks on different hosts are connected by TCP, at ports that the system chooses, over the network by which a host
// reaches the store where that is possible. They prove to each other that they have the same key, which gorun or
// [WithKey] gives; without one a group over several hosts is refused. What they exchange is not encrypted. A store that
// rank 0 serves for them accepts every host that reaches its port.
//
// # cgo
//
// The back ends are C. Without cgo the package builds, and Join says that it needs it.
package comm
