// Package process starts the ranks of one host, reads their output, signals them, and makes sure that none of their
// processes outlives the job. All rules about Linux processes are in this package.
//
// # A rank's process
//
// Each rank leads its own session, and the kernel kills it (PR_SET_PDEATHSIG) when the launcher ends for any reason. It
// has descriptors 0, 1 and 2 only; the user's umask, resource limits, working directory and signal mask; default signal
// actions except for signals that the launcher ignores; and its environment and arguments byte for byte. A main program
// calls [SealInherited] first of all, so that ranks do not inherit descriptors that it was started with.
//
// With [Common].Sockets a rank also has descriptor 3, one end of a pair of stream sockets. It costs nothing more until
// the rank writes to it.
//
// # Spawners
//
// A [Group] has a few threads, its spawners, locked to their goroutines. Each of them starts a share of the ranks, then
// reads their pipes and notices their exits with its own epoll: two pipes, a pidfd and at most one socket per rank. No
// goroutine and no thread belongs to a rank. A spawner's thread lives until [Group.Close], because the parent death
// signal fires when the thread that started a rank ends.
//
//	Start ──> inbox ──> spawner thread ── vfork, exec ──> rank
//	                        │    ^                          │
//	  Sink <── Output ──────┘    └── epoll: pipes, pidfd <──┘
//
// If the file server of the program is dead, execve hangs and Start does not return; only the end of the launcher
// helps.
//
// # Deliberate zombies
//
// An exited rank is not reaped before [Group.Close] or [Group.Reap]. Its pid names its process group and its session,
// and cannot be reused while it is a zombie: so [Group.Signal] is safe at any time and reaches orphans of the rank.
// Nothing here waits for any child (waitpid -1): the launcher may be a library in a program with its own children.
package process
