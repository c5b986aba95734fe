// Waiting for other ranks' words and waking those who wait for ours.
#ifndef GORUN_WAIT_H
#define GORUN_WAIT_H

#include "engine.h"

struct writer { // the sending end of a ring
	char *data;
	_Atomic uint64_t *produced;
	uint64_t position, floor; // next free unit; what the slowest taker had taken when we last looked
};

struct reader { // the receiving end
	const char *data;
	_Atomic uint64_t *produced, *taken;
	uint64_t position, seen; // next unit; how many were there when we last looked
};

struct messages { // the lines of a pair, at one end
	uint64_t sequence, floor;
};

struct region {
	char *base;
	size_t size;
};

struct engine {
	struct header *header;
	char *base;
	struct layout layout;
	int n, me;
	int spins, yields;
	int expedited;             // a sleeper makes all others execute a fence
	_Atomic uint32_t fenceless; // our process is one of those that it reaches
	uint64_t timeout_ns;
	_Atomic uint32_t cancelled;

	uint64_t call;       // sequence number of the present call
	uint64_t signature;  // of the present call, 0 outside of calls
	struct announcement announced;
	uint64_t done_floor; // every rank verified its calls up to here, when we last looked
	uint64_t settled, unverified; // calls up to here are verified by us; bit call % 64: nobody's line was looked at yet

	uint64_t shelf;   // next free unit of every rank's shelf
	size_t shelf_at;  // where in it the present call's data is
	int shelved;      // the present call's data is there

	struct writer ring;
	struct reader *rings;                      // by source
	struct writer *to;                         // by destination
	struct reader *from;                       // by source
	struct messages *sent, *received;
	const void **inputs; // room for one pointer a rank
	uint64_t wait_number; // of the last wait that the others were told: see deadlock.h
	uint64_t *pulses;    // every rank's half-way through a wait that may time out
	struct region regions[MAX_REGIONS];
	int region_count;

	struct hosts *hosts; // NULL where all ranks are on this host
	int waited_for;      // RUN_LATE: for which rank of the group, and for how long
	uint64_t waited_ns;
};

#define TRY(step)                            \
	do {                                     \
		int status_ = (step);                \
		if (__builtin_expect(status_, 0)) return status_; \
	} while (0)

static inline struct area *area_of(const struct engine *e, int rank) {
	return (struct area *)(e->base + e->layout.areas + (size_t)rank * e->layout.area_size);
}

static inline struct pair *pair_of(const struct engine *e, int from, int to) {
	size_t size = (sizeof(struct pair) + 4095) & ~(size_t)4095;
	return (struct pair *)(e->base + e->layout.pairs + ((size_t)from * e->n + to) * size);
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#endif
}

// A word that is waited for: a counter of 64 bits, or the lower half of a line's head.
struct awaited {
	_Atomic uint64_t *word;
	uint64_t least;
	int rank;
	uint8_t half;
	uint8_t channel;
};

static inline int reached(const struct awaited *a) {
	uint64_t now = atomic_load_explicit(a->word, memory_order_acquire);
	return a->half ? (int32_t)((uint32_t)now - (uint32_t)a->least) >= 0 : (int64_t)(now - a->least) >= 0;
}

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

void wake_waiting(struct engine *, enum channel);

// posted wakes who sleeps until one of our words of this sort changes. Between the store before it and the look at the sleepers must lie a full
// fence; where the sleeper makes everybody execute one (membarrier) we pay nothing.
static inline void posted(struct engine *e, enum channel channel) {
	if (atomic_load_explicit(&e->fenceless, memory_order_relaxed)) atomic_signal_fence(memory_order_seq_cst);
	else atomic_thread_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&e->header->sleepers, memory_order_relaxed), 0)) wake_waiting(e, channel);
}

static inline void post(struct engine *e, _Atomic uint64_t *word, uint64_t value, enum channel channel) {
	atomic_store_explicit(word, value, memory_order_release);
	posted(e, channel);
}

// announcement_read says which call a line carries, given its signature.
void announcement_read(uint32_t signature, const struct line *, struct announcement *);

// Failures: the first one stands. Each returns RUN_FAILED. fail_mismatch counts ranks as the host does, the others as the group does.
int fail_mismatch(struct engine *, int rank, const struct announcement *theirs);
int fail_between(struct engine *, int rank, const struct announcement *ours, const struct announcement *theirs);
int fail_gone(struct engine *, int rank, int how);
int fail_with(struct engine *, const char *reason);

uint64_t now_ns(void);

// A sleeping rank is rung as soon as its word changes; it looks up by itself now and then for what nobody rings for.
enum { NAP_NS = 50 * 1000 * 1000 };

#endif
