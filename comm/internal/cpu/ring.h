// Rings: how data beyond a line goes from one rank to others. Writer and readers compute every position by themselves, in the same order of the
// same lengths; only the counters are shared.
#ifndef GORUN_RING_H
#define GORUN_RING_H

#include "kernels.h"
#include "wait.h"

static inline uint64_t units(size_t bytes) { return (bytes + UNIT - 1) / UNIT; }

static inline int stage_at(const struct geometry *g, uint64_t position) {
	int s = 0;
	while (s + 1 < STAGES && position >= g->until[s]) s++;
	return s;
}

// place_from returns where a piece of n units starts that is written at position: a piece neither crosses the ring's end nor a stage's.
static inline uint64_t place_from(const struct geometry *g, uint64_t position, uint64_t n) {
	for (;;) {
		int s = stage_at(g, position);
		uint64_t offset = position & (g->size[s] - 1);
		if (offset + n > g->size[s]) {
			position += g->size[s] - offset;
		} else if (position + n > g->until[s]) {
			position = g->until[s];
		} else {
			return position;
		}
	}
}

static inline size_t offset_at(const struct geometry *g, uint64_t position) {
	int s = stage_at(g, position);
	return g->base[s] + (size_t)(position & (g->size[s] - 1)) * UNIT;
}

// must_be_taken returns the position that readers must have passed before n units may be written at place. The first lap of a stage lies on
// fresh memory: if it had to wait for the stage before it to be read, ranks that put before they take would wait for each other.
static inline uint64_t must_be_taken(const struct geometry *g, uint64_t place, uint64_t n) {
	int s = stage_at(g, place);
	uint64_t began = s ? g->until[s - 1] : 0, end = place + n;
	return end - began > g->size[s] ? end - g->size[s] : 0;
}

static inline void publish(struct engine *e, struct writer *w, enum channel channel) {
	post(e, w->produced, w->position, channel);
}

// --- the own ring, read by all ---

// ring_room shows what was put and waits until the slowest reader has passed floor.
int ring_room(struct engine *e, uint64_t floor);

struct writer writer_new(int past);
void write_long(struct writer *w, char *room, const void *data, size_t bytes);

// write_room copies bytes into room, with those stores that the writer has found to be faster.
static inline void write_room(struct writer *w, char *room, const void *data, size_t bytes) {
	enum { LONG_PUT = 2 << 10 };
	if (bytes < LONG_PUT) copy(room, data, bytes, 0);
	else write_long(w, room, data, bytes);
}

// ring_put returns room for the next bytes in the own ring; ring_publish makes visible what was put.
static inline int ring_put(struct engine *e, size_t bytes, char **room) {
	struct writer *w = &e->ring;
	uint64_t n = units(bytes), place = place_from(&e->layout.ring, w->position, n);
	uint64_t floor = must_be_taken(&e->layout.ring, place, n);
	if (__builtin_expect(floor > w->floor, 0)) TRY(ring_room(e, floor));
	w->position = place + n;
	*room = w->data + offset_at(&e->layout.ring, place);
	return RUN_OK;
}

static inline int ring_write(struct engine *e, const void *data, size_t bytes) {
	char *room;
	TRY(ring_put(e, bytes, &room));
	write_room(&e->ring, room, data, bytes);
	return RUN_OK;
}

static inline void ring_publish(struct engine *e) { publish(e, &e->ring, CH_RING); }

// pass_next passes the next bytes of a ring and returns where they lie, whether they are there yet or not.
static inline const char *pass_next(const struct geometry *g, struct reader *r, size_t bytes) {
	uint64_t n = units(bytes), place = place_from(g, r->position, n);
	r->position = place + n;
	return r->data + offset_at(g, place);
}

static inline int read_next(struct engine *e, const struct geometry *g, struct reader *r, size_t bytes, int rank, enum channel channel,
                            const char **data) {
	*data = pass_next(g, r, bytes);
	if (r->seen < r->position) {
		TRY(wait_counter(e, r->produced, r->position, rank, channel));
		r->seen = atomic_load_explicit(r->produced, memory_order_acquire);
	}
	return RUN_OK;
}

// ring_take waits for the next bytes of rank's ring. They stay until ring_release.
static inline int ring_take(struct engine *e, int rank, size_t bytes, const char **data) {
	return read_next(e, &e->layout.ring, &e->rings[rank], bytes, rank, CH_RING, data);
}

// ring_skip passes bytes of rank's ring that are for others, whether they are there yet or not.
static inline void ring_skip(struct engine *e, int rank, size_t bytes) {
	pass_next(&e->layout.ring, &e->rings[rank], bytes);
}

static inline void ring_release(struct engine *e, int rank) {
	struct reader *r = &e->rings[rank];
	post(e, r->taken, r->position, CH_TAKEN);
}

// --- the ring of a pair ---

static inline int pair_put(struct engine *e, int rank, size_t bytes, char **room) {
	struct writer *w = &e->to[rank];
	uint64_t n = units(bytes), place = place_from(&e->layout.pair_ring, w->position, n);
	uint64_t floor = must_be_taken(&e->layout.pair_ring, place, n);
	if (floor > w->floor) {
		_Atomic uint64_t *taken = &pair_of(e, e->me, rank)->taken.value;
		publish(e, w, CH_PAIR); // what was put must be there to be taken
		TRY(wait_counter(e, taken, floor, rank, CH_PAIR));
		w->floor = atomic_load_explicit(taken, memory_order_acquire);
	}
	w->position = place + n;
	*room = w->data + offset_at(&e->layout.pair_ring, place);
	return RUN_OK;
}

static inline void pair_publish(struct engine *e, int rank) { publish(e, &e->to[rank], CH_PAIR); }

static inline int pair_take(struct engine *e, int rank, size_t bytes, const char **data) {
	return read_next(e, &e->layout.pair_ring, &e->from[rank], bytes, rank, CH_PAIR, data);
}

// pair_announced returns the next bytes from rank, which are there since a line that was put later is.
static inline const char *pair_announced(struct engine *e, int rank, size_t bytes) {
	return pass_next(&e->layout.pair_ring, &e->from[rank], bytes);
}

static inline void pair_release(struct engine *e, int rank) {
	struct reader *r = &e->from[rank];
	post(e, r->taken, r->position, CH_PAIR);
}

#endif
