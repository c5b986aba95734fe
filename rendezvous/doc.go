// Package rendezvous is the place where the ranks of a job find each other: a small key-value store that everybody can
// wait on.
//
// A rank that wants to be found sets a key; a rank that looks for it waits for the key. Counters ([Store.Add]) say how
// many have come, queues hand out work, and a barrier lets nobody pass before all have arrived. That is all that
// PyTorch, MPI and our own collectives need to set themselves up; afterwards they talk to each other directly.
//
//	rank 0: Set("addr/0", "10.0.0.1:4711")      rank 1: Get("addr/0") waits, then returns "10.0.0.1:4711"
//
// There is one store and there are many doors to it:
//
//   - [Store] is the contract for Go programs. The suite in rendezvous/storetest holds every implementation to it.
//   - [Memory] is the store within one process.
//   - rendezvous/tcpstore serves the store to unmodified PyTorch ranks over TCP and has a client that is a Store again.
//   - [WithPrefix] gives a part of a store its own name space.
//
// Behind every door works the same [Engine], so that a queue or a barrier means the same whichever way one came in. Its
// rules are those of PyTorch's TCPStore (torch.distributed.TCPStore with libuv, the default since 2.4), byte for byte
// where a rank could see the difference; where that server loses a wake-up or wakes the wrong one, Engine's comments
// say what it does instead.
package rendezvous
