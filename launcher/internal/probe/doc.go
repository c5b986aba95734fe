// Package probe measures which address of a node the other nodes reach, and over which network interface each node
// talks to the others.
//
// A node lists its addresses (Candidates) and answers probes on one port of all of them (Listen). The others dial those
// addresses (Dial). A connection counts only if the listener proves the job's key and its node number, because the
// same address (172.17.0.1 of docker0) exists on many hosts:
//
//	dialer                                             listener
//	  | -- magic, node, nonce, MAC(key, dial) ---------> |   the listener never sends first
//	  | <-- MAC(key, answer, node, nonce) -------------- |   or closes the connection
//	  | -- end of file --------------------------------> |
//
// Choose picks an address from the results; a Survey's Problems describe what is wrong with the network. Both are pure.
package probe
