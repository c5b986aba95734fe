#define _GNU_SOURCE
#include "deadlock.h"
#include "hosts.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const uint64_t asleep = (uint64_t)1 << 63;

uint64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t ns) {
	struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
	syscall(SYS_futex, word, FUTEX_WAIT, seen, &t, NULL, 0);
}

static void ring_bell(struct engine *e, int rank) {
	_Atomic uint32_t *bell = &area_of(e, rank)->bell;
	atomic_fetch_add(bell, 1);
	syscall(SYS_futex, bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void ring_all(struct engine *e) {
	for (int i = 0; i < e->n; i++) ring_bell(e, i);
}

void wake_waiting(struct engine *e, enum channel channel) {
	uint64_t us = asleep | (uint64_t)(e->me + 1) << 8 | channel;
	for (int i = 0; i < e->n; i++)
		if (i != e->me && atomic_load_explicit(&area_of(e, i)->waits.value, memory_order_relaxed) == us) ring_bell(e, i);
}

int gorun_engine_can_expedite(void) {
	long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
	return commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) && (commands & MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

void gorun_engine_expedite(struct engine *e) { atomic_store_explicit(&e->fenceless, 1, memory_order_relaxed); }

int gorun_engine_register(void) {
	return (int)syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
}

// --- failures ---

// claim returns the record to fill in, or NULL where another failure came first.
static struct failure *claim(struct engine *e) {
	uint32_t none = 0;
	return atomic_compare_exchange_strong(&e->header->failed, &none, 1) ? &e->header->failure : NULL;
}

static int settled(struct engine *e) {
	atomic_store_explicit(&e->header->failed, 2, memory_order_release);
	ring_all(e);
	return RUN_FAILED;
}

static struct failure *described(struct engine *e, enum failure_kind kind, int rank) {
	struct failure *f = claim(e);
	if (!f) return NULL;
	f->kind = kind;
	f->rank = (uint32_t)rank;
	f->sequence = whole_sequence(e);
	f->call = *whole_announcement(e);
	return f;
}

int fail_between(struct engine *e, int rank, const struct announcement *ours, const struct announcement *theirs) {
	struct failure *f = described(e, FAIL_MISMATCH, group_rank(e, e->me));
	if (!f) return RUN_FAILED;
	f->other = (uint32_t)rank;
	f->call = *ours;
	f->other_call = *theirs;
	return settled(e);
}

int fail_mismatch(struct engine *e, int rank, const struct announcement *theirs) {
	struct announcement whole;
	if (whole_differs(e, rank, &whole)) return fail_between(e, group_rank(e, rank), whole_announcement(e), &whole);
	return fail_between(e, group_rank(e, rank), &e->announced, theirs);
}

int fail_gone(struct engine *e, int rank, int how) {
	struct failure *f = described(e, how == 1 ? FAIL_LOST : FAIL_LEFT, rank);
	if (!f) return RUN_FAILED;
	f->other = (uint32_t)group_rank(e, e->me);
	return settled(e);
}

int fail_with(struct engine *e, const char *reason) {
	struct failure *f = described(e, FAIL_ABORTED, group_rank(e, e->me));
	if (!f) return RUN_FAILED;
	snprintf(f->text, sizeof f->text, "%s", reason);
	return settled(e);
}

void gorun_engine_import(struct engine *e, const struct failure *theirs) {
	struct failure *f = claim(e);
	if (!f) return;
	*f = *theirs;
	f->imported = 1;
	settled(e);
}

void gorun_engine_late(struct engine *e, const uint64_t *late) {
	struct failure *f = described(e, FAIL_TIMEOUT, group_rank(e, e->me));
	if (!f) return;
	f->after_ns = e->waited_ns;
	memcpy(f->late, late, sizeof f->late);
	settled(e);
}

void gorun_engine_abort(struct engine *e, const char *reason) {
	fail_with(e, reason);
}

void gorun_engine_gone(struct engine *e, int rank, int how) {
	uint64_t here = 0;
	atomic_compare_exchange_strong(&area_of(e, rank)->gone.value, &here, (uint64_t)how);
	ring_all(e);
}

const struct failure *gorun_engine_failure(struct engine *e) {
	uint64_t until = now_ns() + NAP_NS;
	for (;;) {
		uint32_t state = atomic_load_explicit(&e->header->failed, memory_order_acquire);
		if (state == 0) return NULL;
		if (state == 2 || now_ns() > until) return &e->header->failure; // who wrote it may have died half-way
		sched_yield();
	}
}

void gorun_engine_cancel(struct engine *e, int on) {
	atomic_store(&e->cancelled, (uint32_t)on);
	if (on) ring_bell(e, e->me);
}

// --- who is late ---

static uint64_t waits_for(struct engine *e, int rank) {
	return (atomic_load_explicit(&area_of(e, rank)->waits.value, memory_order_relaxed) & ~asleep) >> 8;
}

// Whether the rank has not come to our call yet.
static int behind(struct engine *e, int rank) {
	uint64_t head = atomic_load_explicit(&area_of(e, rank)->lines[e->call % LINES].head, memory_order_acquire);
	return (int32_t)((uint32_t)head - (uint32_t)e->call) < 0;
}

static _Atomic uint64_t *pulse_of(struct engine *e, int rank) { return &area_of(e, rank)->pulse.value; }

static void beat(struct engine *e) { atomic_fetch_add_explicit(pulse_of(e, e->me), 1, memory_order_relaxed); }

static void feel_pulses(struct engine *e) {
	for (int i = 0; i < e->n; i++) e->pulses[i] = atomic_load_explicit(pulse_of(e, i), memory_order_relaxed);
}

// Whether the rank, which seems to wait, was stopped there: what it waits for may have come long ago.
static int frozen(struct engine *e, int rank) { return atomic_load_explicit(pulse_of(e, rank), memory_order_relaxed) == e->pulses[rank]; }

// Whether the rank keeps others waiting, as far as the lines tell.
static int late(struct engine *e, int rank) { return waits_for(e, rank) ? frozen(e, rank) : behind(e, rank); }

// culprit follows who waits for whom from rank on: a rank that itself waits for another one is not to blame.
static int culprit(struct engine *e, int rank) {
	for (int steps = 0; steps < e->n; steps++) {
		uint64_t next = waits_for(e, rank);
		if (next == 0 || (int)next - 1 == e->me || frozen(e, rank)) break;
		rank = (int)next - 1;
	}
	return rank;
}

static void blame(struct failure *f, int rank) {
	if (rank < LATE_WORDS * 64) f->late[rank / 64] |= (uint64_t)1 << rank % 64;
}

static int fail_timeout(struct engine *e, int rank, uint64_t after_ns) {
	if (e->hosts) return hosts_late(e, group_rank(e, rank), after_ns);
	struct failure *f = described(e, FAIL_TIMEOUT, e->me);
	if (!f) return RUN_FAILED;
	f->after_ns = after_ns;
	int found = 0;
	if (e->signature)
		for (int i = 0; i < e->n; i++)
			if (i != e->me && late(e, i)) blame(f, i), found = 1;
	if (!found) blame(f, culprit(e, rank));
	return settled(e);
}

// --- the slow part of a wait ---

// announcement_of reads what rank says about our call, where its line has come to it.
static int disagrees(struct engine *e, int rank, struct announcement *theirs) {
	struct line *l = &area_of(e, rank)->lines[e->call % LINES];
	uint64_t head = atomic_load_explicit(&l->head, memory_order_acquire);
	if (!e->signature || (uint32_t)head != (uint32_t)e->call || head >> 32 == e->signature) return 0;
	announcement_read((uint32_t)(head >> 32), l, theirs);
	return 1;
}

// obstacle says what makes further waiting useless, RUN_OK for nothing. What the word says counts before it: a rank may have done its part and
// ended.
static int obstacle(struct engine *e, const struct awaited *a) {
	uint64_t gone = atomic_load_explicit(&area_of(e, a->rank)->gone.value, memory_order_acquire);
	uint32_t failed = atomic_load_explicit(&e->header->failed, memory_order_acquire);
	struct announcement theirs;
	if (reached(a)) return RUN_OK;
	if (atomic_load_explicit(&e->cancelled, memory_order_relaxed)) return RUN_CANCELLED;
	if (failed) return RUN_FAILED;
	if (gone) return fail_gone(e, group_rank(e, a->rank), (int)gone);
	if (disagrees(e, a->rank, &theirs) || whole_differs(e, a->rank, &theirs)) return fail_mismatch(e, a->rank, &theirs);
	return RUN_OK;
}

static void nap(struct engine *e, const struct awaited *a, uint64_t ns) {
	struct area *mine = area_of(e, e->me);
	uint64_t waits = (uint64_t)(a->rank + 1) << 8 | a->channel;
	uint32_t bell = atomic_load(&mine->bell);
	atomic_store(&mine->waits.value, asleep | waits);
	atomic_fetch_add(&e->header->sleepers, 1);
	if (e->expedited) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
	atomic_thread_fence(memory_order_seq_cst);
	if (!reached(a)) futex_wait(&mine->bell, bell, ns);
	atomic_fetch_sub(&e->header->sleepers, 1);
	atomic_store(&mine->waits.value, waits);
}

// How long a rank yields at most. An offer of the CPU comes back at once where nobody else wants it, and after a time slice of milliseconds where
// somebody computes there: a fixed number of them could last longer than the time limit.
enum { YIELD_NS = 10 * 1000 * 1000, YIELDS_A_LOOK = 16 };

static int yielded_enough(int turn, uint64_t start) {
	return turn % YIELDS_A_LOOK == 0 && now_ns() - start > YIELD_NS;
}

static int wait_with_patience(struct engine *e, const struct awaited *a) {
	uint64_t start = now_ns(), limit = e->timeout_ns ? e->timeout_ns : UINT64_MAX, felt = 0;
	uint64_t doze = limit / 8 < NAP_NS ? limit / 8 : NAP_NS; // several in the second half, in which pulses must change
	for (int turn = 0;; turn++) {
		TRY(obstacle(e, a));
		if (reached(a)) return RUN_OK;
		if (turn < e->yields) {
			sched_yield();
			if (yielded_enough(turn, start)) turn = e->yields - 1;
			continue;
		}
		if (turn == e->yields) deadlock_say(e, a);
		uint64_t waited = now_ns() - start;
		if (!felt && waited >= limit / 2) feel_pulses(e), felt = waited;
		if (waited >= limit && waited - felt >= 3 * doze) return fail_timeout(e, a->rank, waited); // we may have got no CPU meanwhile
		nap(e, a, waited < limit && limit - waited < doze ? limit - waited : doze);
		beat(e);
		if (!reached(a)) TRY(deadlock_check(e, a));
	}
}

int wait_slowly(struct engine *e, const struct awaited *a) {
	_Atomic uint64_t *waits = &area_of(e, e->me)->waits.value;
	atomic_store_explicit(waits, (uint64_t)(a->rank + 1) << 8 | a->channel, memory_order_relaxed);
	beat(e);
	int status = wait_with_patience(e, a);
	deadlock_say(e, NULL);
	if (status != RUN_LATE) atomic_store_explicit(waits, 0, memory_order_relaxed); // others may be asking what we waited for
	return status;
}
