// Package tcpstore speaks the wire protocol of PyTorch's TCPStore. Its [Server] serves unmodified ranks of PyTorch 2.2
// to 2.15, and its [Client] lets Go programs use our server or PyTorch's own.
//
//	server, err := tcpstore.Listen(tcpstore.Config{})
//	…
//	client, err := tcpstore.Dial(ctx, server.Addr().String())
//	…
//	err = client.Set(ctx, "address", []byte("10.0.0.1:4711"))
//	value, err := client.Get(ctx, "address") // waits for the key
//
// # Security
//
// The protocol has no authentication: a client that may connect may read and write everything. By default a [Server]
// listens on loopback, and serves only processes of its own user and of root, which it learns from the kernel. Peers of
// other hosts and users have to be accepted explicitly, see [Config]. Names are not looked up.
//
// # The protocol
//
// A connection begins with VALIDATE and a magic number. Then come requests: one byte for the operation, and its
// arguments back to back, without the length or a number of the request. Integers are little-endian; keys and values
// are a u64 length and the bytes; lists are a u64 count and the items.
//
//	client                                   server
//	   | -- VALIDATE CE F7 85 3C -------------> |
//	   | -- PING pid -------------------------> |   since 2.5; the client waits for the reply without a timeout
//	   | <------------------------------- pid - |
//	   | -- SET "/a" "1" ---------------------> |   no reply
//	   | -- WAIT ["/a" "/b"] -----------------> |
//	   |          …                             |   another client sets "/b"
//	   | <-------------------------------- 00 - |
//	   | -- WAIT ["/c"] ----------------------> |
//	   |          …                             |   the client's own timeout expires
//	   | -- CANCEL_WAIT ----------------------> |
//	   | <-------------------------------- 01 - |   or 00 01 if "/c" was set at that moment
//
// Replies come in the order of the requests, except that the reply to a WAIT or BARRIER comes when the wait is over.
// PyTorch's client puts a "/" before every key of its caller; only its own counter "init/" goes without. [Client] does
// the same.
//
// # The server
//
// One goroutine owns a server's sockets and its [rendezvous.Engine], and serves all connections by epoll, so that
// operations are ordered without locks. Nothing that a peer does stops it: an incomplete request waits, a slow reader
// delays only its own requests, an invalid request closes its connection, and a length that is announced takes memory
// only as the bytes come.
package tcpstore
