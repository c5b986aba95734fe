#include "wait.h"

#include <sched.h>

#include "deadlock.h"
#include "failure.h"
#include "whole.h"

// --- who is late ---

static uint64_t waits_for(struct engine *e, int rank) {
	return (atomic_load_explicit(&area_of(e, rank)->waits.value, memory_order_relaxed) & ~ASLEEP) >> 8;
}

// Whether the rank has not come to our call yet.
static int behind(struct engine *e, int rank) {
	uint64_t head = atomic_load_explicit(&area_of(e, rank)->lines[e->call % LINES].head, memory_order_acquire);
	return (int32_t)((uint32_t)head - (uint32_t)e->call) < 0;
}

static _Atomic uint64_t *pulse_of(struct engine *e, int rank) { return &area_of(e, rank)->pulse.value; }

static void count_pulse(struct engine *e) { atomic_fetch_add_explicit(pulse_of(e, e->me), 1, memory_order_relaxed); }

static void feel_pulses(struct engine *e) {
	for (int i = 0; i < e->n; i++) e->pulses[i] = atomic_load_explicit(pulse_of(e, i), memory_order_relaxed);
}

// Whether the rank, which seems to wait, was stopped there: what it waits for may have come long ago.
static int frozen(struct engine *e, int rank) { return atomic_load_explicit(pulse_of(e, rank), memory_order_relaxed) == e->pulses[rank]; }

// Whether the rank keeps others waiting, as far as the lines tell.
static int late(struct engine *e, int rank) { return waits_for(e, rank) ? frozen(e, rank) : behind(e, rank); }

// culprit follows the waits from rank on: a rank that itself waits for another one is not to blame.
static int culprit(struct engine *e, int rank) {
	for (int steps = 0; steps < e->n; steps++) {
		uint64_t next = waits_for(e, rank);
		if (next == 0 || (int)next - 1 == e->me || frozen(e, rank)) break;
		rank = (int)next - 1;
	}
	return rank;
}

static void blame(uint64_t *late, int rank) {
	if (rank < LATE_WORDS * 64) late[rank / 64] |= (uint64_t)1 << rank % 64;
}

static int fail_timeout(struct engine *e, int rank, uint64_t after_ns) {
	uint64_t all[LATE_WORDS] = {0};
	int found = 0;
	int status = fail_late(e, group_rank(e, rank), after_ns);
	if (e->hosts) return status; // other hosts know more about who is late
	if (e->signature)
		for (int i = 0; i < e->n; i++)
			if (i != e->me && late(e, i)) blame(all, i), found = 1;
	if (!found) blame(all, culprit(e, rank));
	gorun_engine_late(e, all);
	return RUN_FAILED;
}

// --- the slow part of a wait ---

// disagrees reads what rank says about our call, where its line has come to it.
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
		bell_sleep(e, a, waited < limit && limit - waited < doze ? limit - waited : doze);
		count_pulse(e);
		if (!reached(a)) TRY(deadlock_check(e, a));
	}
}

int wait_slowly(struct engine *e, const struct awaited *a) {
	_Atomic uint64_t *waits = &area_of(e, e->me)->waits.value;
	atomic_store_explicit(waits, (uint64_t)(a->rank + 1) << 8 | a->channel, memory_order_relaxed);
	count_pulse(e);
	int status = wait_with_patience(e, a);
	deadlock_say(e, NULL);
	if (status != RUN_LATE) atomic_store_explicit(waits, 0, memory_order_relaxed); // others may be asking what we waited for
	return status;
}
