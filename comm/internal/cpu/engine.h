// The CPU back end: collectives among the ranks of one host through shared memory, and of several hosts (hosts.h) with TCP between them. One struct engine belongs to one rank of one group; its
// functions are called by one thread at a time, apart from those marked "any thread".
#ifndef GORUN_ENGINE_H
#define GORUN_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "segment.h"

// Operations, with the numbers of package backend.
enum kind {
	K_NONE, K_BARRIER, K_ALLREDUCE, K_REDUCE, K_BROADCAST, K_ALLGATHER, K_ALLGATHERV, K_REDUCESCATTER, K_REDUCESCATTERV,
	K_GATHER, K_GATHERV, K_SCATTER, K_SCATTERV, K_ALLTOALL, K_ALLTOALLV, K_SEND, K_RECV, K_SENDRECV, KINDS
};

struct call {
	int kind, dtype, op, root, from;
	size_t count, recv_count;
	const void *send;
	void *recv;
	const int64_t *counts, *send_counts, *recv_counts; // elements for each rank, or NULL
};

// What a call ends with.
enum status { RUN_OK, RUN_FAILED, RUN_CANCELLED, RUN_LATE };

struct engine;

struct engine_options {
	int ranks, rank;
	int expedited;        // every rank can call membarrier's expedited command
	int crowded;          // more ranks than CPUs: give the CPU away instead of spinning
	uint64_t timeout_ns;  // how long a rank may be waited for; 0: for ever
	uint64_t first_call;  // sequence number of the call before the first (tests: near the wrap)
};

// gorun_engine_can_expedite says whether this process may call membarrier's expedited command. gorun_engine_register makes this process one that
// others' calls of it reach, and returns 0 where that worked; it takes some 10 ms in a process with threads.
int gorun_engine_can_expedite(void);
int gorun_engine_register(void);
// gorun_engine_new joins the segment that lies at base (gorun_layout_for(ranks, crowded).total bytes, zero at first); NULL without memory.
// gorun_engine_prepare makes a fresh segment one whose ranks start behind call first_call; not needed where that is 0.
void gorun_engine_prepare(void *base, int ranks, int crowded, uint64_t first_call);
struct engine *gorun_engine_new(void *base, const struct engine_options *options);
void gorun_engine_free(struct engine *);

// gorun_engine_run runs one call. After RUN_FAILED gorun_engine_failure says why. RUN_LATE comes only in groups over several hosts: a rank was
// waited for too long, and gorun_engine_late is to be called with who is to blame.
int gorun_engine_run(struct engine *, const struct call *);
// gorun_engine_agree returns when all ranks are about to make this call, by other means than this engine; it does nothing else.
int gorun_engine_agree(struct engine *, const struct call *);
// gorun_engine_monitored is a barrier with its own time limit.
int gorun_engine_monitored(struct engine *, uint64_t timeout_ns);

// gorun_engine_sequence is the sequence number of the last call.
uint64_t gorun_engine_sequence(const struct engine *);

// Any thread:
void gorun_engine_expedite(struct engine *);                  // this process is registered, and all ranks can: posts need no fence any more
void gorun_engine_cancel(struct engine *, int on);           // makes the running call return RUN_CANCELLED
void gorun_engine_abort(struct engine *, const char *reason); // fails the group for everybody
void gorun_engine_gone(struct engine *, int rank, int how);   // rank's process ended (1) or closed the group (2)
const struct failure *gorun_engine_failure(struct engine *);  // NULL while there is none

enum { MAX_REGIONS = 256 };

// gorun_engine_region makes memory that all ranks map known: each rank's part is size bytes and they lie one after the other at base. The
// same regions must be added by all ranks, and dropped, between the same calls.
int gorun_engine_region(struct engine *, void *base, size_t size);
void gorun_engine_region_drop(struct engine *, void *base);

#endif
