#define _GNU_SOURCE
#include "bell.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t ns) {
	struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
	syscall(SYS_futex, word, FUTEX_WAIT, seen, &t, NULL, 0);
}

void ring_bell(struct engine *e, int rank) {
	_Atomic uint32_t *bell = &area_of(e, rank)->bell;
	atomic_fetch_add(bell, 1);
	syscall(SYS_futex, bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void ring_all(struct engine *e) {
	for (int i = 0; i < e->n; i++) ring_bell(e, i);
}

void wake_waiting(struct engine *e, enum channel channel) {
	uint64_t us = ASLEEP | (uint64_t)(e->me + 1) << 8 | channel;
	for (int i = 0; i < e->n; i++)
		if (i != e->me && atomic_load_explicit(&area_of(e, i)->waits.value, memory_order_relaxed) == us) ring_bell(e, i);
}

void bell_sleep(struct engine *e, const struct awaited *a, uint64_t ns) {
	struct area *mine = area_of(e, e->me);
	uint64_t waits = (uint64_t)(a->rank + 1) << 8 | a->channel;
	uint32_t bell = atomic_load(&mine->bell);
	atomic_store(&mine->waits.value, ASLEEP | waits);
	atomic_fetch_add(&e->header->sleepers, 1);
	if (e->expedited) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
	atomic_thread_fence(memory_order_seq_cst);
	if (!reached(a)) futex_wait(&mine->bell, bell, ns);
	atomic_fetch_sub(&e->header->sleepers, 1);
	atomic_store(&mine->waits.value, waits);
}

int gorun_engine_can_expedite(void) {
	long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
	return commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) && (commands & MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

void gorun_engine_expedite(struct engine *e) { atomic_store_explicit(&e->fenceless, 1, memory_order_relaxed); }

int gorun_engine_register(void) {
	return (int)syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
}

void gorun_engine_cancel(struct engine *e, int on) {
	atomic_store(&e->cancelled, (uint32_t)on);
	if (on) ring_bell(e, e->me);
}
