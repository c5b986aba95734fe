// Package rendezvous implements the key-value store through which the ranks of a job find each other: keys, counters,
// queues and barriers, on all of which a rank can wait.
//
// A rank publishes its address under a key, and its peers wait for the key. PyTorch, MPI and our own collectives need
// no more than that to start; afterwards ranks talk to each other directly.
//
//	rank 0: Set("addr/0", "10.0.0.1:4711")      rank 1: Get("addr/0") waits, then returns "10.0.0.1:4711"
//
// [Engine] is the store without sockets, for those who write a server. Most programs want package tcpstore instead,
// which has a server for unmodified PyTorch ranks and a client for Go programs.
//
// The store behaves like PyTorch's TCPStore (torch.distributed.TCPStore with libuv, the default since 2.4), byte for
// byte where a rank could see a difference. Where that server loses a wake-up or wakes the wrong client, Engine does
// better, and its comments say how.
package rendezvous
