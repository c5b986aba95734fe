#include "failure.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "bell.h"
#include "whole.h"

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

int fail_late(struct engine *e, int rank, uint64_t after_ns) {
	e->waited_for = rank;
	e->waited_ns = after_ns;
	return RUN_LATE;
}

void gorun_engine_disagree(struct engine *e, int rank, uint64_t what, uint64_t count) {
	struct announcement theirs = announcement_in(what, count);
	fail_between(e, rank, &e->hosts->announced, &theirs);
}

int gorun_engine_waited_for(const struct engine *e) { return e->waited_for; }

int gorun_engine_look(struct engine *e) {
	for (int i = 0; i < e->n; i++)
		if (atomic_load_explicit(&area_of(e, i)->gone.value, memory_order_relaxed) == 1) fail_gone(e, group_rank(e, i), 1);
	for (int i = 0; e->hosts && i < e->hosts->n; i++)
		if (atomic_load_explicit(&e->hosts->gone[i], memory_order_relaxed) == 1) fail_gone(e, i, 1);
	return atomic_load_explicit(&e->header->failed, memory_order_relaxed) != 0;
}

void gorun_engine_far_gone(struct engine *e, int rank, int how) {
	int here = 0;
	atomic_compare_exchange_strong(&e->hosts->gone[rank], &here, how);
}
