// Package gather brings agents together that one command of a resource manager's starts
// on all hosts of a job: srun, flux run. The head listens, starts the command and tells
// it on standard input where it is and what proves that; each agent dials the head.
//
//	head                          command                       agent (on each node)
//	  | -- listen
//	  | -- start, Invitation -------> | -- start, Invitation -----> |
//	  | <=================== TLS 1.3, both prove the token ========= |
//	  | <-------------------------- hello{node_id, version} ------- |
//	  |                               …                              |   until all have come
//	  | --------------------------- welcome, or refusal{why} ------> |
//	  | <========================= wire's frames ==================> |
//
// The Invitation is one line of JSON. Where the command passes on no input it lies in a
// file that only the user can read. Neither an argument nor a variable has the token.
//
// The handshake, its messages and who may come are package join's: the head is node 0, and
// gives each agent the rank of its host.
package gather
