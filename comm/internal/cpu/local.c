#include "local.h"

#include <string.h>

#include "calls.h"

static void keep(void *to, const void *from, size_t bytes) {
	if (to != from && bytes) memmove(to, from, bytes);
}

// run_alone does the call for a group of one rank.
static int run_alone(struct engine *e, const struct call *c) {
	size_t size = dtype_size(c->dtype), bytes = c->count * size;
	switch (c->kind) {
	case K_BARRIER:
	case K_BROADCAST: return RUN_OK;
	case K_ALLREDUCE:
	case K_REDUCE:
	case K_REDUCESCATTER:
	case K_REDUCESCATTERV:
		e->inputs[0] = c->send;
		if (c->count) reduce_inputs(e, c, c->recv, NULL, bytes, 0);
		return RUN_OK;
	case K_SENDRECV: return pair_sendrecv(e, c);
	case K_SEND: return pair_send(e, c);
	case K_RECV: return pair_recv(e, c);
	case K_ALLTOALLV: keep(c->recv, c->send, (size_t)c->send_counts[0] * size); return RUN_OK;
	default: keep(c->recv, c->send, bytes); return RUN_OK;
	}
}

// run_large is for calls whose data goes through rings.
static int run_large(struct engine *e, const struct call *c) {
	if (e->region_count) {
		int done = 0;
		TRY(direct_call(e, c, &done));
		if (done) return RUN_OK;
	}
	switch (c->kind) {
	case K_ALLREDUCE: return e->n == 2 ? flat_allreduce(e, c) : sliced_allreduce(e, c);
	case K_REDUCE: return e->n == 2 ? flat_reduce(e, c) : sliced_reduce(e, c);
	case K_BROADCAST: return ring_broadcast(e, c);
	case K_ALLGATHER:
	case K_ALLGATHERV: return ring_allgather(e, c);
	case K_REDUCESCATTER:
	case K_REDUCESCATTERV: return ring_reducescatter(e, c);
	case K_GATHER: return ring_gather(e, c);
	case K_SCATTER: return ring_scatter(e, c);
	default: return ring_alltoall(e, c);
	}
}

static int run_small(struct engine *e, const struct call *c, size_t bytes) {
	shelf_open(e, bytes);
	switch (c->kind) {
	case K_ALLREDUCE: return small_allreduce(e, c, bytes);
	case K_REDUCE: return small_reduce(e, c, bytes);
	case K_BROADCAST: return small_broadcast(e, c, bytes);
	case K_ALLGATHER: return small_allgather(e, c, bytes);
	case K_REDUCESCATTER: return small_reducescatter(e, c, bytes);
	case K_GATHER: return small_gather(e, c, bytes);
	case K_SCATTER: return small_scatter(e, c, bytes);
	default: return small_alltoall(e, c, bytes);
	}
}

// line_need is what one rank's line or shelf has to hold for the call to travel so: a block, or a row of them.
static size_t line_need(const struct engine *e, const struct call *c, size_t bytes) {
	int row = c->kind == K_REDUCESCATTER || c->kind == K_SCATTER || c->kind == K_ALLTOALL;
	return row ? bytes * (size_t)e->n : bytes;
}

static int empty(const struct engine *e, const struct call *c) {
	if (c->kind == K_ALLGATHERV || c->kind == K_REDUCESCATTERV) return agreed_count(c, e->n) == 0;
	return c->count == 0;
}

static int run_collective(struct engine *e, const struct call *c) {
	size_t bytes = c->count * dtype_size(c->dtype), need = line_need(e, c, bytes);
	int vectors = c->kind == K_ALLGATHERV || c->kind == K_REDUCESCATTERV;
	if (empty(e, c)) return small_nothing(e, c);
	return vectors || need > SHELF_BYTES ? run_large(e, c) : run_small(e, c, need);
}

int run_local(struct engine *e, const struct call *c) {
	if (e->n == 1) return run_alone(e, c);
	switch (c->kind) {
	case K_BARRIER: return small_barrier(e);
	case K_SEND: return pair_send(e, c);
	case K_RECV: return pair_recv(e, c);
	case K_SENDRECV: return pair_sendrecv(e, c);
	case K_GATHERV: return pair_gatherv(e, c);
	case K_SCATTERV: return pair_scatterv(e, c);
	case K_ALLTOALLV: return pair_alltoallv(e, c);
	default: return run_collective(e, c);
	}
}
