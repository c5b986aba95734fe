#define _GNU_SOURCE
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "hosts.h"

static void *zeroed(size_t n, size_t size) { return calloc(n ? n : 1, size); }

static int reserve(struct engine *e) {
	size_t n = (size_t)e->n;
	e->rings = zeroed(n, sizeof *e->rings);
	e->to = zeroed(n, sizeof *e->to);
	e->from = zeroed(n, sizeof *e->from);
	e->sent = zeroed(n, sizeof *e->sent);
	e->received = zeroed(n, sizeof *e->received);
	e->inputs = zeroed(n, sizeof *e->inputs);
	e->pulses = zeroed(n, sizeof *e->pulses);
	return e->rings && e->to && e->from && e->sent && e->received && e->inputs && e->pulses;
}

static char *pair_data(struct engine *e, int from, int to) {
	return e->base + e->layout.pair_rings + ((size_t)from * e->n + to) * e->layout.pair_ring_size;
}

static char *ring_data(struct engine *e, int rank) { return e->base + e->layout.rings + (size_t)rank * e->layout.ring_size; }

static void wire(struct engine *e, uint64_t first_call) {
	struct area *mine = area_of(e, e->me);
	e->ring.data = ring_data(e, e->me);
	e->ring.produced = &mine->produced.value;
	for (int i = 0; i < e->n; i++) {
		struct pair *to = pair_of(e, e->me, i), *from = pair_of(e, i, e->me);
		e->rings[i].data = ring_data(e, i);
		e->rings[i].produced = &area_of(e, i)->produced.value;
		e->rings[i].taken = &mine->taken[i].value;
		e->to[i].data = pair_data(e, e->me, i);
		e->to[i].produced = &to->produced.value;
		e->from[i].data = pair_data(e, i, e->me);
		e->from[i].produced = &from->produced.value;
		e->from[i].taken = &from->taken.value;
		e->sent[i].sequence = e->sent[i].floor = e->received[i].sequence = first_call;
	}
}

// How long a rank spins and yields before it sleeps. With a CPU for each the others are about to answer, and sleeping early makes all fall
// asleep in turn; without, spinning takes the CPU from those that are waited for.
static void temper(struct engine *e, int crowded) {
	e->spins = crowded ? 0 : 2000;
	e->yields = crowded ? 20 : 10000;
}

void gorun_engine_prepare(void *base, int ranks, int crowded, uint64_t first_call) {
	struct engine all = {.base = base, .n = ranks, .layout = gorun_layout_for(ranks, crowded)};
	for (int i = 0; i < ranks; i++) {
		atomic_store(&area_of(&all, i)->done.value, first_call);
		for (int k = 0; k < LINES; k++) atomic_store(&area_of(&all, i)->lines[k].head, (uint32_t)first_call);
		for (int j = 0; j < ranks; j++) {
			struct pair *p = pair_of(&all, i, j);
			atomic_store(&p->acked.value, first_call);
			for (int k = 0; k < PAIR_LINES; k++) atomic_store(&p->lines[k].head, (uint32_t)first_call);
		}
	}
}

struct engine *gorun_engine_new(void *base, const struct engine_options *o) {
	struct engine *e = aligned_alloc(64, (sizeof *e + 63) & ~(size_t)63);
	if (!e) return NULL;
	memset(e, 0, sizeof *e);
	e->base = base;
	e->header = base;
	e->n = o->ranks;
	e->me = o->rank;
	e->layout = gorun_layout_for(o->ranks, o->crowded);
	e->timeout_ns = o->timeout_ns;
	e->expedited = o->expedited && !o->crowded;
	e->call = e->settled = e->done_floor = o->first_call;
	temper(e, o->crowded);
	if (!reserve(e)) {
		gorun_engine_free(e);
		return NULL;
	}
	wire(e, o->first_call);
	return e;
}

void gorun_engine_free(struct engine *e) {
	hosts_free(e->hosts);
	free(e->rings);
	free(e->to);
	free(e->from);
	free(e->sent);
	free(e->received);
	free(e->inputs);
	free(e->pulses);
	free(e);
}

int gorun_engine_region(struct engine *e, void *base, size_t size) {
	if (e->region_count == MAX_REGIONS) return -1;
	e->regions[e->region_count++] = (struct region){base, size};
	return 0;
}

void gorun_engine_region_drop(struct engine *e, void *base) {
	for (int i = 0; i < e->region_count; i++) {
		if (e->regions[i].base != base) continue;
		e->region_count--;
		memmove(&e->regions[i], &e->regions[i + 1], (size_t)(e->region_count - i) * sizeof e->regions[0]);
		return;
	}
}

// ring_room shows what was put and waits until the slowest reader has passed floor.
int ring_room(struct engine *e, uint64_t floor) {
	uint64_t least = UINT64_MAX;
	ring_publish(e);
	for (int i = 0; i < e->n; i++) {
		if (i == e->me) continue;
		_Atomic uint64_t *taken = &area_of(e, i)->taken[e->me].value;
		TRY(wait_counter(e, taken, floor, i, CH_TAKEN));
		uint64_t now = atomic_load_explicit(taken, memory_order_acquire);
		if (now < least) least = now;
	}
	e->ring.floor = least;
	return RUN_OK;
}

// --- which way ---

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

int gorun_engine_run(struct engine *e, const struct call *c) {
	if (atomic_load_explicit(&e->header->failed, memory_order_relaxed)) return RUN_FAILED;
	return e->hosts ? run_over_hosts(e, c) : run_local(e, c);
}

int gorun_engine_agree(struct engine *e, const struct call *c) {
	if (atomic_load_explicit(&e->header->failed, memory_order_relaxed)) return RUN_FAILED;
	return e->n == 1 ? RUN_OK : small_agree(e, c);
}

int gorun_engine_monitored(struct engine *e, uint64_t timeout_ns) {
	uint64_t usual = e->timeout_ns;
	e->timeout_ns = timeout_ns;
	struct call c = {.kind = K_BARRIER};
	int status = gorun_engine_run(e, &c);
	e->timeout_ns = usual;
	return status;
}

uint64_t gorun_engine_sequence(const struct engine *e) { return e->call; }
