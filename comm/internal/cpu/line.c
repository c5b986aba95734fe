#include "line.h"

// line_room waits until every rank has verified the call whose lines are to be written again.
int line_room(struct engine *e) {
	uint64_t need = e->call - LINES, least = e->call;
	for (int i = 0; i < e->n; i++) {
		if (i == e->me) continue;
		_Atomic uint64_t *done = &area_of(e, i)->done.value;
		TRY(wait_counter(e, done, need, i, CH_DONE));
		uint64_t now = atomic_load_explicit(done, memory_order_acquire);
		if ((int64_t)(now - least) < 0) least = now;
	}
	e->done_floor = least;
	return RUN_OK;
}

int line_differs(struct engine *e, int rank, struct line *theirs) {
	struct announcement a;
	announcement_read((uint32_t)(atomic_load(&theirs->head) >> 32), theirs, &a);
	return fail_mismatch(e, rank, &a);
}

// verify compares the lines of an earlier call, which nobody can have written again before we say that we are done with it.
static int verify(struct engine *e, uint64_t call) {
	struct line *mine = line_of(e, e->me, call);
	uint64_t ours = atomic_load_explicit(&mine->head, memory_order_relaxed) >> 32;
	struct announcement own;
	announcement_read((uint32_t)ours, mine, &own);
	int leaf = is_rooted(own.kind) && (int)own.root != e->me;
	for (int i = 0; i < e->n; i++) {
		if (leaf && i != (int)own.root) continue;
		struct line *theirs = line_of(e, i, call);
		TRY(wait_line(e, theirs, call, i, CH_LINE));
		uint32_t said = (uint32_t)(atomic_load_explicit(&theirs->head, memory_order_acquire) >> 32);
		if (said == ours) continue;
		struct announcement a;
		e->announced = own;
		announcement_read(said, theirs, &a);
		e->call = call; // the failure is about that one
		return fail_mismatch(e, i, &a);
	}
	return RUN_OK;
}

_Static_assert(LINES == 64, "a bit of unverified for each line");

// verify_until verifies the calls of which that is still missing, up to this one, the oldest first.
int verify_until(struct engine *e, uint64_t call) {
	uint64_t first = e->settled + 1;
	int shift = (int)(first % LINES);
	while (e->unverified) {
		uint64_t rotated = shift ? e->unverified >> shift | e->unverified << (LINES - shift) : e->unverified;
		uint64_t next = first + (uint64_t)__builtin_ctzll(rotated);
		if ((int64_t)(next - call) > 0) break;
		TRY(verify(e, next));
		e->unverified &= ~((uint64_t)1 << (next % LINES));
	}
	return RUN_OK;
}

// call_settle verifies up to a quarter of the lines ago, and says so.
int call_settle(struct engine *e) {
	uint64_t until = e->call - LINES / 4;
	if ((int64_t)(until - e->settled) > 0) {
		TRY(verify_until(e, until));
		e->settled = until;
	}
	if (!e->unverified) e->settled = e->call;
	post(e, &area_of(e, e->me)->done.value, e->settled, CH_DONE);
	return RUN_OK;
}
