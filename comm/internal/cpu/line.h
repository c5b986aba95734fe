// Lines: how a call is announced to the others, with its data where that fits.
#ifndef GORUN_LINE_H
#define GORUN_LINE_H

#include <string.h>

#include "failure.h"
#include "kernels.h"
#include "wait.h"

static inline struct line *line_of(struct engine *e, int rank, uint64_t call) {
	return &area_of(e, rank)->lines[call % LINES];
}

int line_room(struct engine *e);

// The line of this many calls ahead is fetched before it is written: others read its last use, and a store that has to fetch it first would hold up
// the next locked instruction, of which Go and cgo have four a call.
enum { FETCH_AHEAD = 2 };

static inline void fetch_to_write(const struct line *l) {
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*l));
#else
	__builtin_prefetch(l, 1);
#endif
}

// call_begin takes the next sequence number and returns our line for it.
static inline int call_begin(struct engine *e, const struct announcement *a, uint32_t signature, struct line **mine) {
	e->call++;
	e->announced = *a;
	e->signature = signature;
	if (__builtin_expect((int64_t)(e->done_floor - (e->call - LINES)) < 0, 0)) TRY(line_room(e));
	*mine = line_of(e, e->me, e->call);
	fetch_to_write(line_of(e, e->me, e->call + FETCH_AHEAD));
	return RUN_OK;
}

static inline void line_post(struct engine *e, struct line *mine) {
	uint64_t head = (uint64_t)e->signature << 32 | (uint32_t)e->call;
	post(e, &mine->head, head, CH_LINE);
}

int line_differs(struct engine *e, int rank, struct line *theirs);

// line_agrees compares the call that rank's line carries with ours. The line must have been waited for.
static inline int line_agrees(struct engine *e, int rank, struct line *theirs) {
	uint64_t head = atomic_load_explicit(&theirs->head, memory_order_acquire);
	if (__builtin_expect(head >> 32 != e->signature, 0)) return line_differs(e, rank, theirs);
	return RUN_OK;
}

// line_get waits for rank's line of our call and compares the calls.
static inline int line_get(struct engine *e, int rank, struct line **theirs) {
	struct line *l = line_of(e, rank, e->call);
	*theirs = l;
	TRY(wait_line(e, l, e->call, rank, CH_LINE));
	return line_agrees(e, rank, l);
}

int call_settle(struct engine *e);
int verify_until(struct engine *e, uint64_t call);

// Whose lines were compared with ours. In a call with a root that is enough for the others: the root compares all of theirs with its own.
enum seen { SEEN_NONE, SEEN_ALL, SEEN_ROOT };

// call_end closes the call. What was not compared yet (the root of a broadcast waits for nobody) is made up for later, when the lines are there
// anyway: by the next call in which all were seen, or by call_settle.
static inline int call_end(struct engine *e, enum seen seen) {
	if (seen == SEEN_NONE) e->unverified |= (uint64_t)1 << (e->call % LINES);
	else if (seen == SEEN_ALL && __builtin_expect(e->unverified != 0, 0)) TRY(verify_until(e, e->call - 1));
	e->signature = 0;
	return e->call % (LINES / 4) ? RUN_OK : call_settle(e);
}

// announce_begin is call_begin for a call whose data does not travel in lines: its line carries the announcement.
static inline int announce_begin(struct engine *e, const struct announcement *a) {
	struct line *mine;
	TRY(call_begin(e, a, signature_large(a), &mine));
	memcpy(mine->payload, a, sizeof *a);
	line_post(e, mine);
	return RUN_OK;
}

// announce_check compares rank's announcement with ours after something of its data was there, which means that its line is, too.
static inline int announce_check(struct engine *e, int rank) {
	struct line *theirs = line_of(e, rank, e->call);
	TRY(line_agrees(e, rank, theirs));
	const struct announcement *a = (const struct announcement *)theirs->payload;
	if (__builtin_expect(a->count != e->announced.count || a->root != e->announced.root, 0)) return fail_mismatch(e, rank, a);
	return RUN_OK;
}

// announce_to_all is announce_begin and the checks of everybody else's announcement: it returns when all ranks have come to the call.
static inline int announce_to_all(struct engine *e, const struct announcement *a) {
	TRY(announce_begin(e, a));
	for (int i = 0; i < e->n; i++) {
		struct line *l;
		if (i == e->me) continue;
		TRY(line_get(e, i, &l));
		TRY(announce_check(e, i));
	}
	return RUN_OK;
}

#endif
