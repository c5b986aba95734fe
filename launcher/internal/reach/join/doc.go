// Package join connects the nodes of a job that were started by hand or by another resource manager: node 0 listens at
// an address that every node knows, and the others dial it.
//
// One port serves the agents of other nodes and, later, ranks as clients of the TCPStore. The first bytes of a
// connection, which must arrive within 10 s, identify the peer; node 0 sends nothing before that.
//
//	00 CE F7 85 3C     a store client: passed on with the bytes that were read, once there is a store
//	16 03              TLS: a node with a token
//	03 05 00 00 00     (… init/) PyTorch before 2.2: refused
//	67 6f 72 75 6e     "gorun": the hello of a node without a token
//	else               not a peer of this protocol: closed
//
// # The handshake
//
// The same messages travel over TLS and over plain TCP:
//
//	node                                   node 0
//	  | -- hello{id, nodes, rank, …} ------> |
//	  |             …                        |   until all nodes are connected
//	  | <-- welcome{rank} or refusal{why} -- |
//	  | <====== wire's frames ============>  |
//
//	0       5         6        10
//	| gorun | version | length | JSON …
//
// In a job that runs with MinNodes or more, welcome{waits} comes at once, and a second one at a restart.
//
// The length is in bytes, little-endian, at most 64 KiB. A node sends nothing between its hello and the welcome; if its
// connection ends before, node 0 frees its rank.
//
// With several ports, node 0 listens at the first free one and nodes dial all of them at once: node 0 of another job
// refuses them because of the job id, and other programs may stay silent.
//
// # Authentication
//
// With a token, both ends prove that they have it before anything else is read: TLS 1.3 with a certificate on each
// side, whose P-256 key HKDF derives from the token. Node 0 and the dialing nodes have different keys, so that
// nothing can be reflected, and each side pins the key of the other. (crypto/tls has no external pre-shared keys.) Each
// handshake has fresh randomness, so that nothing can be replayed.
//
// Agents that one command of a resource manager starts use the same protocol (package gather): the launcher makes a
// token for each start of the command and assigns the rank of an agent's host ([Config.AssignRank]).
//
// Without a token, all nodes are processes of one user on one host: the address must be a loopback address, and each
// end asks the kernel for the owner of the other end. [Config.Insecure] lifts that: any peer with the right job id,
// number of nodes and a free node rank is then accepted, and both ends print a warning.
//
// # Unknown peers
//
// A connection that idles, sends garbage or half a hello costs a descriptor for at most 20 s. There are at most
// [maxPending] of those; then the oldest one is closed. Notices about them are limited to one per address and a few in
// total.
package join
