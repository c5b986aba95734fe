// Groups over several hosts: calls are made of calls among a host's ranks (run_local) and of streams between ranks of different hosts (net.h).
#ifndef GORUN_HOSTS_H
#define GORUN_HOSTS_H

#include <poll.h>

#include "wait.h"

struct flow;

enum { BUFFERS = 4, MOST_HOST_RANKS = LATE_WORDS * 64 };

struct buffer {
	char *data;
	size_t size;
};

struct hosts {
	int n, me;       // ranks of the group; our number among them
	int count, home; // hosts, in the order of their lowest ranks; ours
	int rails;       // how many ranks every host has at least: so many drive a slice each
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

// A call in one word and its count: kind | dtype << 8 | op << 16 | root << 32.
uint64_t what_of(const struct announcement *);
struct announcement announcement_in(uint64_t what, uint64_t count);

static inline int is_message(int kind) { return kind == K_SEND || kind == K_RECV || kind == K_SENDRECV; }

// whole_differs says whether the rank of this host is known to make another call than ours, and which.
int whole_differs(struct engine *, int rank, struct announcement *theirs);
int hosts_late(struct engine *, int rank, uint64_t after_ns);
void hosts_free(struct hosts *);
int run_over_hosts(struct engine *, const struct call *);
int run_local(struct engine *, const struct call *); // engine.c

// hosts_buffer is memory of at least so many bytes that the next call with this number may overwrite; NULL: the group failed for lack of it.
char *hosts_buffer(struct engine *, int number, size_t bytes);

// What Go calls.

// gorun_engine_spread makes the group one over several hosts, before its first call. host_of has the number of each of the n ranks' hosts, counted
// by their lowest ranks, fds the connection to each rank of another host. The connections belong to the engine then. -1: no memory.
int gorun_engine_spread(struct engine *, int n, int me, const int *host_of, const int *fds, uint64_t first_call);
// Any thread: gorun_engine_far_gone is gorun_engine_gone for a rank of another host, gorun_engine_import takes a failure that another host
// noticed, gorun_engine_late writes one about the ranks whose bits are set, after RUN_LATE.
void gorun_engine_far_gone(struct engine *, int rank, int how);
void gorun_engine_import(struct engine *, const struct failure *);
void gorun_engine_late(struct engine *, const uint64_t *late);
// gorun_engine_disagree writes down, after RUN_LATE, that rank makes another call than ours; what and count as in struct whole_call.
void gorun_engine_disagree(struct engine *, int rank, uint64_t what, uint64_t count);
// gorun_engine_waited_for is the rank that was waited for, after RUN_LATE.
int gorun_engine_waited_for(const struct engine *);

// Where a rank of this host is, for those who wonder why it does not answer.
struct whereabouts {
	uint64_t sequence; // of its last collective
	uint64_t what;     // of its present call, 0 between calls: see struct whole_call
	uint64_t count;
	int64_t waits_for; // rank of the group, or -1
};
// Any thread.
void gorun_engine_where(struct engine *, int rank, struct whereabouts *);

#endif
