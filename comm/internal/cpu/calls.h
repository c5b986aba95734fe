// The operations: one function for each way of doing one, and what they share.
#ifndef GORUN_CALLS_H
#define GORUN_CALLS_H

#include "line.h"
#include "ring.h"

enum {
	LOOK_AHEAD = 1,          // chunks that are put before the first is taken
	STREAMED_BYTES = 4 << 20 // results from here on go past the caches
};

static inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

// piece returns how many of total bytes lie in the i-th chunk.
static inline size_t piece(size_t total, size_t i, size_t chunk) {
	size_t begin = i * chunk;
	return begin >= total ? 0 : smaller(chunk, total - begin);
}

static inline size_t pieces(size_t total, size_t chunk) { return (total + chunk - 1) / chunk; }

// agreed_count is the number that all ranks must name alike: where each has its own, the sum that all know, or none.
static inline uint64_t agreed_count(const struct call *c, int n) {
	uint64_t sum = 0;
	switch (c->kind) {
	case K_ALLGATHERV:
	case K_REDUCESCATTERV:
		for (int i = 0; i < n; i++) sum += (uint64_t)c->counts[i];
		return sum;
	case K_GATHERV:
	case K_SCATTERV:
	case K_ALLTOALLV:
	case K_BARRIER: return 0;
	default: return c->count;
	}
}

// agreed_root is the root or, where there is none but every rank must give the same counts, a check sum of those: 0 where all are 0.
static inline uint32_t agreed_root(const struct call *c, int n) {
	uint64_t sum = 0;
	if (c->kind != K_ALLGATHERV && c->kind != K_REDUCESCATTERV) return (uint32_t)c->root;
	for (int i = 0; i < n; i++) sum += (uint64_t)c->counts[i] * (0x9E3779B97F4A7C15u * (2 * (uint64_t)i + 1));
	return (uint32_t)(sum >> 32);
}

static inline struct announcement announcement_of(const struct engine *e, const struct call *c) {
	return (struct announcement){.kind = (uint8_t)c->kind, .dtype = (uint8_t)c->dtype, .op = (uint8_t)c->op,
	                             .root = agreed_root(c, e->n), .count = agreed_count(c, e->n)};
}

// call_finish is call_end after a call whose results may have gone past the caches.
static inline int call_finish(struct engine *e, int streaming, int seen) {
	if (streaming) copy_fence();
	return call_end(e, seen);
}

static inline void reduce_inputs(struct engine *e, const struct call *c, void *out, void *out2, size_t bytes, int streaming) {
	reduce(c->dtype, c->op, out, out2, e->inputs, e->n, bytes / dtype_size(c->dtype), e->n, streaming);
}

// blocks says how many bytes are each rank's in the calls that have one block for each.
struct blocks {
	const int64_t *counts; // NULL: all have equal
	size_t equal, size;
};

static inline struct blocks blocks_of(const struct call *c) {
	return (struct blocks){c->counts, c->count, dtype_size(c->dtype)};
}

static inline size_t block_bytes(const struct blocks *b, int i) {
	return (b->counts ? (size_t)b->counts[i] : b->equal) * b->size;
}

static inline size_t block_offset(const struct blocks *b, int i) {
	if (!b->counts) return (size_t)i * b->equal * b->size;
	size_t elements = 0;
	for (int k = 0; k < i; k++) elements += (size_t)b->counts[k];
	return elements * b->size;
}

static inline size_t block_largest(const struct blocks *b, int n) {
	if (!b->counts) return b->equal * b->size;
	size_t largest = 0;
	for (int i = 0; i < n; i++)
		if (block_bytes(b, i) > largest) largest = block_bytes(b, i);
	return largest;
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
