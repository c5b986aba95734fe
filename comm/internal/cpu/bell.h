// Posting words that others may sleep for, and waking them.
#ifndef GORUN_BELL_H
#define GORUN_BELL_H

#include "state.h"

uint64_t now_ns(void);

// A rank that sleeps has this bit in what it says it waits for.
#define ASLEEP ((uint64_t)1 << 63)

// A sleeping rank is rung as soon as its word changes; it looks up by itself now and then for what nobody rings for.
enum { NAP_NS = 50 * 1000 * 1000 };

// bell_sleep sleeps until the awaited word comes, somebody rings, or the time is over.
void bell_sleep(struct engine *, const struct awaited *, uint64_t ns);
void ring_bell(struct engine *, int rank);
void ring_all(struct engine *);
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

// What Go calls.

// gorun_engine_can_expedite says whether this process may call membarrier's expedited command. gorun_engine_register makes this process one that
// others' calls of it reach, and returns 0 where that worked; it takes some 10 ms in a process with threads.
int gorun_engine_can_expedite(void);
int gorun_engine_register(void);
// Any thread:
void gorun_engine_cancel(struct engine *, int on); // makes the running call return RUN_CANCELLED
void gorun_engine_expedite(struct engine *);                  // this process is registered, and all ranks can: posts need no fence any more

#endif
