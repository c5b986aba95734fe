#include "whole.h"

#include "bell.h"

static void write_whole(struct whole_call *w, uint64_t sequence, uint64_t what, uint64_t count) {
	atomic_store_explicit(&w->sequence, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&w->what, what, memory_order_relaxed);
	atomic_store_explicit(&w->count, count, memory_order_relaxed);
	atomic_store_explicit(&w->sequence, sequence, memory_order_release);
}

void whole_begin(struct engine *e, const struct call *c) {
	struct hosts *h = e->hosts;
	struct area *mine = area_of(e, e->me);
	h->announced = (struct announcement){.kind = (uint8_t)c->kind, .dtype = (uint8_t)c->dtype, .op = (uint8_t)c->op,
	                                     .root = agreed_root(c, h->n), .count = agreed_count(c, h->n)};
	uint64_t what = what_of(&h->announced), count = h->announced.count;
	if (!is_message(c->kind)) {
		h->sequence++;
		write_whole(&mine->wholes[h->sequence % WHOLE_CALLS], h->sequence, what, count);
	}
	write_whole(&mine->present, h->sequence, what, count);
}

void whole_end(struct engine *e) {
	atomic_store_explicit(&area_of(e, e->me)->present.what, 0, memory_order_release);
}

int whole_differs(struct engine *e, int rank, struct announcement *theirs) {
	if (!e->hosts || is_message(e->hosts->announced.kind)) return 0;
	uint64_t sequence = e->hosts->sequence;
	struct whole_call *w = &area_of(e, rank)->wholes[sequence % WHOLE_CALLS];
	if (atomic_load_explicit(&w->sequence, memory_order_acquire) != sequence) return 0;
	uint64_t what = atomic_load_explicit(&w->what, memory_order_relaxed), count = atomic_load_explicit(&w->count, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&w->sequence, memory_order_relaxed) != sequence) return 0;
	*theirs = announcement_in(what, count);
	return what != what_of(&e->hosts->announced) || count != e->hosts->announced.count;
}

void gorun_engine_where(struct engine *e, int rank, struct whereabouts *w) {
	struct area *a = area_of(e, rank);
	uint64_t waits = atomic_load(&a->waits.value) & ~ASLEEP;
	w->sequence = atomic_load(&a->present.sequence);
	for (int i = 0; i < 1000 && !w->sequence; i++) w->sequence = atomic_load(&a->present.sequence); // 0 while it is written
	w->what = atomic_load(&a->present.what);
	w->count = atomic_load(&a->present.count);
	w->waits_for = -1;
	if (waits) w->waits_for = (waits & 255) == CH_NET ? (int64_t)(waits >> 8) - 1 : group_rank(e, (int)(waits >> 8) - 1);
}
