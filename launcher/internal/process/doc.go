// Package process starts the ranks of one host, reads what they write, signals
// them and sees to it that nothing of them is left. It is the only place that
// knows Linux's rules about processes.
//
// # A rank's process
//
// Each rank leads a session of its own and is killed by the kernel
// (PR_SET_PDEATHSIG) when the launcher ends in whatever way. It has descriptors
// 0, 1 and 2 and no others, the user's umask, limits and working directory, the
// user's signal mask, default signal actions except for signals that the launcher
// ignores, and its environment and arguments byte for byte. A main program calls
// [SealInherited] first of all, so that descriptors which it was started with
// don't reach ranks.
//
// With [Common].Sockets it has descriptor 3 as well: one end of a pair of stream
// sockets, by which it may talk to the launcher. Only one that does costs more than
// that.
//
// # Spawners
//
// A [Group] has a few threads, its spawners, locked to their goroutines. Each of
// them starts its share of the ranks and then reads their pipes and notices their
// ends, by an epoll of its own: two pipes, a pidfd and at most one socket a rank.
// No goroutine and no thread belongs to a rank. A spawner's thread lives until
// [Group.Close], because the kernel takes the end of the thread that started a rank
// for the launcher's.
//
//	Start ──> inbox ──> spawner thread ── vfork, exec ──> rank
//	                        │    ^                          │
//	  Sink <── Output ──────┘    └── epoll: pipes, pidfd <──┘
//
// Between vfork and exec a spawner's thread is not the scheduler's. A start that
// may hang, the first of a program, gives up its P for that time; the ones after
// it hold theirs for some 300 microseconds each. A program that wants its other
// goroutines to run meanwhile has GOMAXPROCS above the number of spawners. If the
// file server of the program is dead Start does not return, and only the end of
// the launcher helps.
//
// # Zombies on purpose
//
// A rank that has ended is not reaped before [Group.Close], or [Group.Reap], which is for
// ranks of which nothing is left. Its pid names its
// process group and its session, and as long as it is a zombie no other process
// can get that number: so [Group.Signal] is safe at any time, and reaches what the
// rank left behind. Nothing here waits for "any child": the launcher may be a
// library in a program that has children of its own.
package process
