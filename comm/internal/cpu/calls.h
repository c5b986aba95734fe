// The operations: one function for each way of doing one, and what they share.
#ifndef GORUN_CALLS_H
#define GORUN_CALLS_H

#include "blocks.h"
#include "line.h"
#include "ring.h"

enum {
	LOOK_AHEAD = 1,          // chunks that are put before the first is taken
	STREAMED_BYTES = 4 << 20 // results from here on go past the caches
};

static inline struct announcement announcement_of(const struct engine *e, const struct call *c) {
	return (struct announcement){.kind = (uint8_t)c->kind, .dtype = (uint8_t)c->dtype, .op = (uint8_t)c->op,
	                             .root = agreed_root(c, e->n), .count = agreed_count(c, e->n)};
}

// call_finish is call_end after a call whose results may have gone past the caches.
static inline int call_finish(struct engine *e, int streaming, enum seen seen) {
	if (streaming) copy_fence();
	return call_end(e, seen);
}

static inline void reduce_inputs(struct engine *e, const struct call *c, void *out, void *out2, size_t bytes, int streaming) {
	reduce(c->dtype, c->op, out, out2, e->inputs, e->n, bytes / dtype_size(c->dtype), e->n, streaming);
}

// Data in lines or on shelves (lines.c); bytes is what one rank has to put there, and shelf_open was called with it.
void shelf_open(struct engine *, size_t bytes);
int small_barrier(struct engine *);
int small_agree(struct engine *, const struct call *); // a barrier of those who are about to make this call
int small_nothing(struct engine *, const struct call *);
int small_allreduce(struct engine *, const struct call *, size_t bytes);
int small_reduce(struct engine *, const struct call *, size_t bytes);
int small_broadcast(struct engine *, const struct call *, size_t bytes);
int small_allgather(struct engine *, const struct call *, size_t bytes);
int small_gather(struct engine *, const struct call *, size_t bytes);
int small_scatter(struct engine *, const struct call *, size_t bytes);
int small_reducescatter(struct engine *, const struct call *, size_t bytes);
int small_alltoall(struct engine *, const struct call *, size_t bytes);

// Data in rings (reductions.c, moves.c).
int flat_allreduce(struct engine *, const struct call *);
int sliced_allreduce(struct engine *, const struct call *);
int flat_reduce(struct engine *, const struct call *);
int sliced_reduce(struct engine *, const struct call *);
int ring_reducescatter(struct engine *, const struct call *);
int ring_broadcast(struct engine *, const struct call *);
int ring_allgather(struct engine *, const struct call *);
int ring_gather(struct engine *, const struct call *);
int ring_scatter(struct engine *, const struct call *);
int ring_alltoall(struct engine *, const struct call *);

// From one to one (pairs.c).
int pair_send(struct engine *, const struct call *);
int pair_recv(struct engine *, const struct call *);
int pair_sendrecv(struct engine *, const struct call *);
int pair_gatherv(struct engine *, const struct call *);
int pair_scatterv(struct engine *, const struct call *);
int pair_alltoallv(struct engine *, const struct call *);

// On memory that everybody maps (direct.c). direct_serves says whether the call can be done so; *done is 1 where it was.
int direct_call(struct engine *, const struct call *, int *done);

#endif
