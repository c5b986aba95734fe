// Package join brings nodes together that were started by hand, or by somebody
// else's engine: node 0 listens at an address that all know, the others dial it.
//
// Agents of other nodes and, later, ranks as clients of the TCPStore come to the
// same port. The first bytes of a connection, which have to come within 10 s, tell
// who it is; nothing is sent before that.
//
//	00 CE F7 85 3C     a store client: handed on with what was read, once a store is there
//	16 03              TLS of a node that has a token
//	03 05 00 00 00     (… init/) PyTorch before 2.2: refused
//	67 6f 72 75 6e     "gorun", the hello of a node without a token
//	else               a stranger: closed
//
// # The hello
//
// The same messages go over TLS and over plain TCP:
//
//	node                                   node 0
//	  | -- hello{id, nodes, rank, …} ------> |
//	  |             …                        |   until all have come
//	  | <-- welcome{rank} or refusal{why} -- |
//	  | <====== wire's frames ============>  |
//
//	0       5         6        10
//	| gorun | version | length | JSON …
//
// with length in bytes, little-endian, at most 64 KiB. A node sends nothing between
// its hello and the welcome; that its connection ends tells node 0 that it went away.
//
// Where several ports are given, node 0 listens at the first that is free and nodes dial
// all of them at once: those of other jobs refuse them by their id, and who is no gorun
// may keep silent.
//
// # Who may come
//
// With a token, both ends prove that they have it before anything else is read:
// TLS 1.3 in which each end has a certificate with an Ed25519 key that HKDF derives
// from the token, one for node 0 and another for nodes that dial, so that nothing can
// be reflected. Each end pins the other's key. crypto/tls has no pre-shared keys from
// outside, else these would do. Randomness in each handshake leaves nothing to
// replay.
//
// Agents that a resource manager's one command starts come here, too (package gather): the head makes a token for each
// start of that command, and gives an agent the rank of its host ([Config.Place]).
//
// Without a token, nodes are processes of one user on one host: the endpoint is a loopback
// address, and each end asks the kernel whose the other end of the connection is. Only
// [Config.Insecure] takes others: who says the right job id, number of nodes and a free
// node rank is then taken for a node, and both ends warn.
//
// # What does not come here
//
// Whatever else connects, idles, sends garbage or half a hello costs a descriptor
// for at most 20 s, of at most [maxUnknown] at once; then the oldest has to go. Of
// strangers one line per address is told, and no more than a few in all.
package join
