// Package rendezvous is the store that the ranks of a job meet at: keys, counters, queues and barriers that everybody
// can wait on.
//
// A rank that wants to be found sets a key; a rank that looks for it waits for the key. That is all that PyTorch, MPI
// and our own collectives need to set themselves up; afterwards they talk to each other directly.
//
//	rank 0: Set("addr/0", "10.0.0.1:4711")      rank 1: Get("addr/0") waits, then returns "10.0.0.1:4711"
//
// [Engine] is that store without sockets. Package tcpstore serves it over TCP, to unmodified PyTorch ranks and to Go
// programs, and has the client for the latter.
//
// Its rules are those of PyTorch's TCPStore (torch.distributed.TCPStore with libuv, the default since 2.4), byte for
// byte where a rank could see the difference; where that server loses a wake-up or wakes the wrong one, Engine's
// comments say what it does instead.
package rendezvous
