// Package tcpstore speaks the wire protocol of PyTorch's TCPStore: a server for unmodified ranks of PyTorch 2.2 to
// 2.15, and a client for Go programs, of our server or of PyTorch's own.
//
// # The protocol
//
// A connection begins with VALIDATE and a magic number; then come requests: one byte that says which operation, and its
// arguments back to back, with neither a length nor a number of the request. Integers are little-endian; keys and
// values are a u64 length and the bytes; lists are a u64 count and the items.
//
//	client                                   server
//	   | -- VALIDATE CE F7 85 3C -------------> |
//	   | -- PING pid -------------------------> |   since 2.5; the client waits for the answer without a time limit
//	   | <------------------------------- pid - |
//	   | -- SET "/a" "1" ---------------------> |   no answer
//	   | -- WAIT ["/a" "/b"] -----------------> |
//	   |          …                             |   somebody sets "/b"
//	   | <-------------------------------- 00 - |
//	   | -- WAIT ["/c"] ----------------------> |
//	   |          …                             |   the client's own time limit is over
//	   | -- CANCEL_WAIT ----------------------> |
//	   | <-------------------------------- 01 - |   or 00 01, if "/c" came just then
//
// Answers come in the order of the requests, save that of a WAIT or BARRIER, which comes when there is nothing more to
// wait for. PyTorch's client puts a "/" before every key of its caller; only its own counter "init/" goes without.
// [Client] does the same.
//
// The protocol knows no authentication: who may connect may read and write everything. A [Server] therefore listens on
// loopback unless told otherwise. On this host it takes connections from processes of its own user and of root, which
// the kernel tells by the peer's socket, and of other hosts from accepted addresses.
//
// # The server
//
// One goroutine owns a server's sockets and its [rendezvous.Engine] and serves all connections by epoll, so that
// operations are ordered without a lock. Nothing that a peer does stops it: half a request waits for the other half, a
// reader that is slow holds up its own requests only, bytes that are no protocol close that connection, and a length
// that is announced takes memory only as the bytes come. There are no name look-ups.
package tcpstore
