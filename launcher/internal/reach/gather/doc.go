// Package gather connects the agents that a resource manager (an engine) starts on all hosts of a
// job by one command, such as srun or flux run. The head listens, starts the command and passes it
// an invitation on standard input: where the head listens, and a token. Each agent dials the head.
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
// The Invitation is one line of JSON. For a command that does not forward its input, the line is
// in a file that only the user can read. No argument or variable contains the token.
//
// Package join does the handshake: the head is node 0, and gives each agent the rank of its host.
package gather
