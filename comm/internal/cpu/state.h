// What one rank knows of its group: its place in the shared memory, the other hosts, the call that it is in. Every layer above works on it, and only
// the calling thread changes it, apart from what is atomic.
#ifndef GORUN_STATE_H
#define GORUN_STATE_H

#include <poll.h>

#include "call.h"

enum { MAX_REGIONS = 256 };

struct writer { // the sending end of a ring
	char *data;
	_Atomic uint64_t *produced;
	uint64_t position, floor; // next free unit; what the slowest taker had taken when we last looked
	int past;                 // 1: long puts go past the caches
	int left;                 // long puts until that is decided again
	uint64_t least[2];        // what the timed ones took at least: nanoseconds for 2^20 bytes, by past
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

struct flow;

enum { BUFFERS = 4, MOST_HOST_RANKS = LATE_WORDS * 64 };

struct buffer {
	char *data;
	size_t size;
};

struct hosts {
	int n, me;       // ranks of the group; our number among them
	int count, home; // hosts, in the order of their lowest ranks; ours
	int rails;       // how many ranks every host has at least: each of them drives a slice
	int shared;      // 1: some host has more than one rank
	int *host_of;    // by rank
	int *index_of;   // by rank: the how-manieth of its host
	int *first;      // by host, and one more: where its ranks begin in members
	int *members;    // ranks by host, ascending in each
	int *fds;        // by rank: the connection, -1 within the host
	_Atomic int *gone; // by rank: 1 the process ended, 2 it closed the group; any thread
	struct flow *flows; // room for two a rank
	struct pollfd *polls;
	const char **held;  // room for one pointer a rank
	int64_t *counts;    // room for one number a local rank
	struct buffer buffers[BUFFERS];
	uint64_t sequence; // of the present collective
	int loose;         // calls since the last one in which all waited for all
	struct announcement announced;
};

struct engine {
	struct header *header;
	char *base;
	struct layout layout;
	int n, me;
	int crowded;               // 1: this host has more ranks than CPUs
	int spins, yields;         // of a wait
	int shared;                // waits that found our CPU shared; once we behave as crowded ranks do, waits until we look again
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
	uint64_t wait_number; // of the last wait that others can read: see deadlock.h
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

static inline int member(const struct hosts *h, int host, int index) { return h->members[h->first[host] + index]; }
static inline int host_size(const struct hosts *h, int host) { return h->first[host + 1] - h->first[host]; }

// adjacent says whether the host's ranks follow each other in the group, so that their blocks do in a buffer.
static inline int adjacent(const struct hosts *h, int host) {
	int size = host_size(h, host);
	return member(h, host, size - 1) - member(h, host, 0) == size - 1;
}

// group_rank is the number in the group of a rank of this host.
static inline int group_rank(const struct engine *e, int rank) {
	return e->hosts ? member(e->hosts, e->hosts->home, rank) : rank;
}

static inline uint64_t whole_sequence(const struct engine *e) { return e->hosts ? e->hosts->sequence : e->call; }
static inline const struct announcement *whole_announcement(const struct engine *e) { return e->hosts ? &e->hosts->announced : &e->announced; }

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

#endif
