#define _GNU_SOURCE
#include "wait.h"

#include <sched.h>
#include <sys/resource.h>

#include "deadlock.h"
#include "failure.h"
#include "whole.h"

// --- how long to wait actively ---

// With a CPU for each rank the others are about to answer, and sleeping early makes all fall asleep in turn. Without, spinning takes the CPU from
// those that are waited for.
enum { SPINS = 2000, YIELDS = 10000, YIELDS_CROWDED = 20 };

void temper(struct engine *e, int crowded) {
	e->spins = crowded ? 0 : SPINS;
	e->yields = crowded ? YIELDS_CROWDED : YIELDS;
}

// Hosts that share CPUs (containers), and jobs on one host, do not know of each other. A rank learns of them by waits in which others get its
// CPU and give it back soon: they wait, too. One that computes keeps it for a time slice of milliseconds, and spinning is right beside it.
enum { SHARED_AFTER = 8, SHARED_FOR = 4096, GIVEN_BACK_NS = 200 * 1000 };

// Whether we have to find out: not where we behave as crowded ranks do.
static int curious(const struct engine *e) { return e->spins > 0; }

static long lost_cpu(void) {
	struct rusage u;
	return getrusage(RUSAGE_THREAD, &u) ? 0 : u.ru_nivcsw; // a yield counts where another thread runs then
}

void sharing_begin(const struct engine *e, struct sharing *s) {
	if (curious(e)) *s = (struct sharing){now_ns(), lost_cpu()};
}

void sharing_end(struct engine *e, const struct sharing *s) {
	if (e->crowded) return;
	if (curious(e)) sharing_learn(e, lost_cpu() - s->switches, now_ns() - s->since);
	else sharing_learn(e, 0, 0);
}

void sharing_learn(struct engine *e, long switches, uint64_t ns) {
	if (!curious(e)) {
		if (--e->shared) return;
		temper(e, 0);
		e->shared = SHARED_AFTER - 2; // a short look is enough if nothing has changed
	} else if (switches > 0 && ns / (uint64_t)switches < GIVEN_BACK_NS) {
		if (++e->shared < SHARED_AFTER) return;
		temper(e, 1);
		e->shared = SHARED_FOR;
	} else if (e->shared) {
		e->shared--;
	}
}

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
	struct sharing began = {0};
	sharing_begin(e, &began);
	int status = wait_with_patience(e, a);
	sharing_end(e, &began);
	deadlock_say(e, NULL);
	if (status != RUN_LATE) atomic_store_explicit(waits, 0, memory_order_relaxed); // others may be asking what we waited for
	return status;
}
