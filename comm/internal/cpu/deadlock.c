#include "deadlock.h"

#include "failure.h"

static struct wanted *wanted_of(const struct engine *e, int rank) { return &area_of(e, rank)->wanted; }

void deadlock_say(struct engine *e, const struct awaited *a) {
	struct wanted *w = wanted_of(e, e->me);
	atomic_store_explicit(&w->number, 0, memory_order_relaxed);
	if (!a) return;
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&w->rank, (uint64_t)a->rank, memory_order_relaxed);
	atomic_store_explicit(&w->half, a->half, memory_order_relaxed);
	atomic_store_explicit(&w->word, (uint64_t)((char *)a->word - e->base), memory_order_relaxed);
	atomic_store_explicit(&w->least, a->least, memory_order_relaxed);
	atomic_store_explicit(&w->what, what_of(whole_announcement(e)), memory_order_relaxed);
	atomic_store_explicit(&w->count, whole_announcement(e)->count, memory_order_relaxed);
	atomic_store_explicit(&w->number, ++e->wait_number, memory_order_release);
}

// A standstill is what a rank says of its wait.
struct standstill {
	struct awaited awaited;
	uint64_t what, count;
};

// read_wait reads it; 0 where the rank does not wait, or began another wait meanwhile.
static int read_wait(struct engine *e, int rank, struct standstill *s) {
	struct wanted *w = wanted_of(e, rank);
	uint64_t number = atomic_load_explicit(&w->number, memory_order_acquire);
	if (!number) return 0;
	uint64_t word = atomic_load_explicit(&w->word, memory_order_relaxed);
	s->awaited = (struct awaited){
		.word = (_Atomic uint64_t *)(e->base + word), .least = atomic_load_explicit(&w->least, memory_order_relaxed),
		.rank = (int)atomic_load_explicit(&w->rank, memory_order_relaxed), .half = (uint8_t)atomic_load_explicit(&w->half, memory_order_relaxed)};
	s->what = atomic_load_explicit(&w->what, memory_order_relaxed);
	s->count = atomic_load_explicit(&w->count, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&w->number, memory_order_relaxed) == number;
}

// How many ranks may wait for each other in a circle that is found.
enum { LONGEST_CIRCLE = 64 };

// unlike says whether the two calls never meet. Different collectives do: their lines are compared, which tells more.
static int unlike(const struct announcement *ours, const struct standstill *s) {
	return (is_message(ours->kind) || is_message(s->what & 255)) && (s->what != what_of(ours) || s->count != ours->count);
}

// leads_back says whether rank waits, by way of others, for us, and odd becomes the nearest one on that way whose call is unlike ours.
//
// It is no guess. On the way there it reads what each rank waits for, and on the way back whether that came. A word has one writer. Had one rank's
// word been written before its writer said what it waits for itself, we would see it, as we saw what was said. Afterwards the writer waits
// until its own word comes: so does each of them, and so do we.
static int leads_back(struct engine *e, int rank, int left, int *odd) {
	struct standstill s;
	if (!left || !read_wait(e, rank, &s)) return 0;
	if (s.awaited.rank != e->me && !leads_back(e, s.awaited.rank, left - 1, odd)) return 0;
	if (unlike(whole_announcement(e), &s)) *odd = rank;
	return !reached(&s.awaited);
}

int deadlock_check(struct engine *e, const struct awaited *a) {
	int odd = e->me;
	struct standstill s;
	if (a->rank == e->me || !leads_back(e, a->rank, LONGEST_CIRCLE, &odd) || reached(a)) return RUN_OK;
	if (odd == e->me || !read_wait(e, odd, &s)) return RUN_OK;
	struct announcement theirs = announcement_in(s.what, s.count);
	return fail_between(e, group_rank(e, odd), whole_announcement(e), &theirs);
}
