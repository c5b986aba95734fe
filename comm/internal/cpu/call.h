// A call, what its ranks must agree on, and how they tell each other: as an announcement, as a signature, as a word and a count.
#ifndef GORUN_CALL_H
#define GORUN_CALL_H

#include "segment.h"

// Operations, with the numbers of package backend.
enum kind {
	K_NONE, K_BARRIER, K_ALLREDUCE, K_REDUCE, K_BROADCAST, K_ALLGATHER, K_ALLGATHERV, K_REDUCESCATTER, K_REDUCESCATTERV,
	K_GATHER, K_GATHERV, K_SCATTER, K_SCATTERV, K_ALLTOALL, K_ALLTOALLV, K_SEND, K_RECV, K_SENDRECV, KINDS
};

struct call {
	int kind, dtype, op, root, from;
	size_t count, recv_count;
	const void *send;
	void *recv;
	const int64_t *counts, *send_counts, *recv_counts; // elements for each rank, or NULL
};

// What a call ends with.
enum status { RUN_OK, RUN_FAILED, RUN_CANCELLED, RUN_LATE };

// agreed_count is the number that all ranks must name alike: where each has its own, the sum that all know, or none.
static inline uint64_t agreed_count(const struct call *c, int n) {
	uint64_t sum = 0;
	switch (c->kind) {
	case K_ALLGATHERV:
	case K_REDUCESCATTERV:
		for (int i = 0; i < n; i++) sum += (uint64_t)c->counts[i];
		return sum;
	case K_GATHERV:
	case K_SCATTERV:
	case K_ALLTOALLV:
	case K_BARRIER: return 0;
	default: return c->count;
	}
}

// agreed_root is the root or, if the call has no root but every rank must give the same counts, a check sum of those: 0 where all are 0.
static inline uint32_t agreed_root(const struct call *c, int n) {
	uint64_t sum = 0;
	if (c->kind != K_ALLGATHERV && c->kind != K_REDUCESCATTERV) return (uint32_t)c->root;
	for (int i = 0; i < n; i++) sum += (uint64_t)c->counts[i] * (0x9E3779B97F4A7C15u * (2 * (uint64_t)i + 1));
	return (uint32_t)(sum >> 32);
}

// A call in one word and its count: kind | dtype << 8 | op << 16 | root << 32.
uint64_t what_of(const struct announcement *);
struct announcement announcement_in(uint64_t what, uint64_t count);

static inline int is_rooted(int kind) {
	return kind == K_REDUCE || kind == K_BROADCAST || kind == K_GATHER || kind == K_GATHERV || kind == K_SCATTER || kind == K_SCATTERV;
}

static inline int is_message(int kind) { return kind == K_SEND || kind == K_RECV || kind == K_SENDRECV; }

// A signature is what ranks must agree on, in 31 bits: exact where the data travels in lines, a check sum of the announcement otherwise.
//
//   30..26 kind   25..22 dtype   21..18 op   17..0  in lines: count << 12 | root; otherwise a hash of count and root
//   31 set: the announcement is the line's payload
enum { SIG_ANNOUNCED = 1u << 31, SIG_ROOTS = 1 << 12 };

static inline uint32_t signature_head(const struct announcement *a) {
	return (uint32_t)a->kind << 26 | (uint32_t)a->dtype << 22 | (uint32_t)a->op << 18;
}

static inline uint32_t signature_small(const struct announcement *a) {
	return signature_head(a) | (uint32_t)a->count << 12 | a->root;
}

static inline uint32_t signature_large(const struct announcement *a) {
	uint64_t mixed = (a->count * 0x9E3779B97F4A7C15u) ^ (a->root * 0xC2B2AE3D27D4EB4Fu);
	return SIG_ANNOUNCED | signature_head(a) | (uint32_t)(mixed >> 46);
}

// announcement_read says which call a line carries, given its signature.
void announcement_read(uint32_t signature, const struct line *, struct announcement *);

#endif
