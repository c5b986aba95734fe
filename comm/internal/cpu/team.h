// The operations over hosts, and what they share.
#ifndef GORUN_TEAM_H
#define GORUN_TEAM_H

#include "blocks.h"
#include "local.h"
#include "net.h"

enum {
	RAIL_BYTES = 16 << 10,  // vectors up to here go between the hosts in one piece, larger ones in a slice for each rail
	CHAIN_BYTES = 64 << 10, // broadcasts from here on go from host to host in a chain, below along a tree
	PACKED_BYTES = 32 << 10 // results up to here are gathered by one rank of each host
};

// A team is one rank of every host: the one with this index, at one host another one.
struct team {
	int index, host, rank; // host -1: no exception
};

static inline int team_rank(const struct hosts *h, const struct team *t, int host) {
	return host == t->host ? t->rank : member(h, host, t->index);
}

// holder returns the index of the rank at host that represents rank of another host there. The ranks of one host are spread over those of the
// other in their order.
static inline int holder(const struct hosts *h, int host, int rank) {
	return (int)((int64_t)h->index_of[rank] * host_size(h, host) / host_size(h, h->host_of[rank]));
}

// rail_counts fills h->counts with the elements of a vector that each local rank has in its slice, and returns where ours begins.
static inline size_t rail_counts(struct engine *e, size_t count, size_t size) {
	struct hosts *h = e->hosts;
	size_t unit = UNIT / size, each = ((count + (size_t)h->rails - 1) / (size_t)h->rails + unit - 1) / unit * unit, at = 0, own = 0;
	for (int i = 0; i < e->n; i++) {
		size_t part = i < h->rails ? smaller(each, count - at) : 0;
		if (i == e->me) own = at;
		h->counts[i] = (int64_t)part;
		at += part;
	}
	return own;
}

// run_counts fills h->counts with the elements of host's blocks that each local rank holds, and returns the sum.
static inline size_t run_counts(struct engine *e, const struct blocks *b, int host) {
	struct hosts *h = e->hosts;
	size_t sum = 0;
	for (int i = 0; i < e->n; i++) h->counts[i] = 0;
	for (int k = 0; k < host_size(h, host); k++) {
		int rank = member(h, host, k);
		size_t elements = block_bytes(b, rank) / b->size;
		h->counts[holder(h, h->home, rank)] += (int64_t)elements;
		sum += elements;
	}
	return sum;
}

// The operations over hosts (hosts_reduce.c, hosts_move.c).
int hosts_barrier(struct engine *);
int hosts_allreduce(struct engine *, const struct call *);
int hosts_reduce(struct engine *, const struct call *);
int hosts_reducescatter(struct engine *, const struct call *);
int hosts_broadcast(struct engine *, const struct call *);
int hosts_allgather(struct engine *, const struct call *);
int hosts_gather(struct engine *, const struct call *);
int hosts_scatter(struct engine *, const struct call *);
int hosts_alltoall(struct engine *, const struct call *);
int hosts_message(struct engine *, const struct call *);

#endif
