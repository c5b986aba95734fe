// A call over hosts as its caller made it, noted where the other ranks of its host see it.
#ifndef GORUN_WHOLE_H
#define GORUN_WHOLE_H

#include "state.h"

// whole_begin notes the call as the present one, whole_end clears it.
void whole_begin(struct engine *, const struct call *);
void whole_end(struct engine *);
// whole_differs says whether the rank of this host is known to make another call than ours, and which.
int whole_differs(struct engine *, int rank, struct announcement *theirs);

// What Go calls.

// Where a rank of this host is, for those who wonder why it does not answer.
struct whereabouts {
	uint64_t sequence; // of its last collective
	uint64_t what;     // of its present call, 0 between calls: see struct whole_call
	uint64_t count;
	int64_t waits_for; // rank of the group, or -1
};
// Any thread.
void gorun_engine_where(struct engine *, int rank, struct whereabouts *);

#endif
