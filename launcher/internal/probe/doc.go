// Package probe finds out which address of a node the other nodes reach, and by
// which network interface each talks to the others: tried, not guessed.
//
// A node lists its addresses (Candidates) and answers probes on one port of all of
// them (Listen). The others dial those addresses (Dial). A connection counts only
// with proof of the job's key and of the node's number, since the same address
// (172.17.0.1 of docker0) exists on many hosts:
//
//	dialer                                             listener
//	  | -- magic, node, nonce, MAC(key, dial) ---------> |   the listener never speaks first
//	  | <-- MAC(key, answer, node, nonce) -------------- |   or the connection is closed
//	  | -- end of file --------------------------------> |
//
// Choose makes a decision of what came back, and a Survey's Problems are what is wrong with the
// network. These and the order of candidates are pure.
package probe
