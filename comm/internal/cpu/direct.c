// Calls on memory that all ranks map (Allocate): nothing is copied through a ring. The lines say where everybody's buffers are; a barrier at the end
// keeps them untouched until the last one has read.
#include "calls.h"

enum { OFFSET_BITS = 48 };

// locate encodes where bytes at p lie in a region, 0 where they don't.
static uint64_t locate(const struct engine *e, const void *p, size_t bytes) {
	for (int i = 0; i < e->region_count; i++) {
		const struct region *r = &e->regions[i];
		size_t offset = (size_t)((const char *)p - r->base), size = r->size * (size_t)e->n;
		if ((const char *)p >= r->base && offset <= size && bytes <= size - offset) return (uint64_t)(i + 1) << OFFSET_BITS | offset;
	}
	return 0;
}

static char *located(const struct engine *e, uint64_t where) {
	return e->regions[(where >> OFFSET_BITS) - 1].base + (where & (((uint64_t)1 << OFFSET_BITS) - 1));
}

// extent is how many bytes the call reads at Send and writes at Recv.
struct extent {
	size_t send, recv;
};

static struct extent extent_of(const struct engine *e, const struct call *c) {
	size_t block = c->count * dtype_size(c->dtype), all = block * (size_t)e->n;
	switch (c->kind) {
	case K_ALLGATHER: return (struct extent){block, all};
	case K_REDUCESCATTER: return (struct extent){all, block};
	case K_ALLTOALL: return (struct extent){all, all};
	default: return (struct extent){block, block};
	}
}

static struct announcement *said(struct engine *e, int rank) {
	return (struct announcement *)line_of(e, rank, e->call)->payload;
}

// send_of is where rank's block i is for the others to read.
static const char *send_of(struct engine *e, int rank) { return located(e, said(e, rank)->send); }

static void direct_allreduce(struct engine *e, const struct call *c, size_t bytes) {
	size_t n = (size_t)e->n, chunk = e->layout.chunk;
	size_t slice = ((bytes + n - 1) / n + UNIT - 1) / UNIT * UNIT, at = smaller(bytes, slice * (size_t)e->me);
	size_t end = smaller(bytes, at + slice);
	int streaming = bytes >= STREAMED_BYTES;
	for (; at < end; at += chunk) {
		size_t part = smaller(chunk, end - at);
		char *second = n == 2 ? located(e, said(e, 1 - e->me)->recv) + at : NULL;
		for (int i = 0; i < e->n; i++) e->inputs[i] = send_of(e, i) + at;
		reduce_inputs(e, c, (char *)c->recv + at, second, part, streaming && n == 2);
		for (int i = 0; i < e->n && n > 2; i++)
			if (i != e->me) copy(located(e, said(e, i)->recv) + at, (char *)c->recv + at, part, streaming);
	}
}

static void direct_reducescatter(struct engine *e, const struct call *c, size_t bytes) {
	size_t own = bytes * (size_t)e->me;
	for (int i = 0; i < e->n; i++) e->inputs[i] = send_of(e, i) + own;
	reduce_inputs(e, c, (char *)c->recv + (c->send == c->recv ? own : 0), NULL, bytes, bytes * (size_t)e->n >= STREAMED_BYTES);
}

// direct_pull copies rank i's block at the offset there to its place here, for all ranks.
static void direct_pull(struct engine *e, const struct call *c, size_t bytes, size_t offset) {
	int streaming = bytes * (size_t)e->n >= STREAMED_BYTES;
	for (int k = 0; k < e->n; k++) {
		int i = (e->me + k) % e->n;
		char *to = (char *)c->recv + bytes * (size_t)i;
		const char *from = send_of(e, i) + offset;
		if (to != from) copy(to, from, bytes, streaming);
	}
}

static void direct_move(struct engine *e, const struct call *c) {
	size_t bytes = c->count * dtype_size(c->dtype);
	switch (c->kind) {
	case K_ALLREDUCE: direct_allreduce(e, c, bytes); break;
	case K_REDUCESCATTER: direct_reducescatter(e, c, bytes); break;
	case K_ALLGATHER: direct_pull(e, c, bytes, 0); break;
	case K_ALLTOALL: direct_pull(e, c, bytes, bytes * (size_t)e->me); break;
	default:
		if (e->me != c->root) copy(c->recv, send_of(e, c->root), bytes, bytes >= STREAMED_BYTES);
	}
	copy_fence();
}

// possible says whether everybody's buffers are where the call needs them.
static int possible(struct engine *e, const struct call *c) {
	for (int i = 0; i < e->n; i++) {
		const struct announcement *a = said(e, i);
		if (c->kind == K_BROADCAST && i != c->root) continue;
		if (!a->send || (c->kind == K_ALLREDUCE && !a->recv)) return 0;
	}
	return 1;
}

static int serves(int kind) {
	return kind == K_ALLREDUCE || kind == K_REDUCESCATTER || kind == K_ALLGATHER || kind == K_ALLTOALL || kind == K_BROADCAST;
}

int direct_call(struct engine *e, const struct call *c, int *done) {
	struct extent x = extent_of(e, c);
	struct announcement a = announcement_of(e, c);
	const char *send = c->kind == K_BROADCAST ? c->recv : c->send;
	size_t own = c->kind == K_ALLGATHER && c->send == c->recv ? x.send * (size_t)e->me : 0; // in place: the own block of the result
	if (!serves(c->kind)) return RUN_OK;
	// An all-to-all in place would write what others have yet to read; such a rank announces the call as if its buffer were elsewhere.
	a.send = c->kind == K_ALLTOALL && c->send == c->recv ? 0 : locate(e, send + own, x.send);
	a.recv = locate(e, c->recv, x.recv);
	TRY(announce_to_all(e, &a));
	*done = possible(e, c);
	if (*done) direct_move(e, c);
	TRY(call_end(e, SEEN_ALL));
	return *done ? small_barrier(e) : RUN_OK;
}
