// Waiting for other ranks' words.
#ifndef GORUN_WAIT_H
#define GORUN_WAIT_H

#include "bell.h"

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#endif
}

// temper decides how long waits spin and yield.
void temper(struct engine *, int crowded);

struct sharing { // the beginning of a wait: when, and how often this thread had lost its CPU
	uint64_t since;
	long switches;
};

// sharing_begin and sharing_end surround a part of a wait in which the thread offers its CPU to others.
void sharing_begin(const struct engine *, struct sharing *);
void sharing_end(struct engine *, const struct sharing *);
// sharing_learn takes what a wait met: how often others ran, in how many nanoseconds.
void sharing_learn(struct engine *, long switches, uint64_t ns);

int wait_slowly(struct engine *, const struct awaited *);

static inline int wait_reached(struct engine *e, const struct awaited *a) {
	if (__builtin_expect(reached(a), 1)) return RUN_OK;
	for (int i = 0; i < e->spins; i++) {
		relax();
		if (reached(a)) return RUN_OK;
	}
	return wait_slowly(e, a);
}

// wait_counter waits until rank's counter is at least that.
static inline int wait_counter(struct engine *e, _Atomic uint64_t *word, uint64_t least, int rank, enum channel channel) {
	struct awaited a = {word, least, rank, 0, (uint8_t)channel};
	return wait_reached(e, &a);
}

// wait_line waits until the line carries the call (or a later one).
static inline int wait_line(struct engine *e, struct line *l, uint64_t call, int rank, enum channel channel) {
	struct awaited a = {&l->head, call, rank, 1, (uint8_t)channel};
	return wait_reached(e, &a);
}

#endif
