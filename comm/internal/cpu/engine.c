#define _GNU_SOURCE
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "local.h"
#include "wait.h"

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

static void wire(struct engine *e, uint64_t first_call, int past) {
	struct area *mine = area_of(e, e->me);
	e->ring = writer_new(past);
	e->ring.data = ring_data(e, e->me);
	e->ring.produced = &mine->produced.value;
	for (int i = 0; i < e->n; i++) {
		struct pair *to = pair_of(e, e->me, i), *from = pair_of(e, i, e->me);
		e->rings[i].data = ring_data(e, i);
		e->rings[i].produced = &area_of(e, i)->produced.value;
		e->rings[i].taken = &mine->taken[i].value;
		e->to[i] = writer_new(past);
		e->to[i].data = pair_data(e, e->me, i);
		e->to[i].produced = &to->produced.value;
		e->from[i].data = pair_data(e, i, e->me);
		e->from[i].produced = &from->produced.value;
		e->from[i].taken = &from->taken.value;
		e->sent[i].sequence = e->sent[i].floor = e->received[i].sequence = first_call;
	}
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
	e->crowded = o->crowded;
	temper(e, o->crowded);
	if (!reserve(e)) {
		gorun_engine_free(e);
		return NULL;
	}
	wire(e, o->first_call, o->past);
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
