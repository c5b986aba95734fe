// How a call's data divides into chunks, and into one block for each rank.
#ifndef GORUN_BLOCKS_H
#define GORUN_BLOCKS_H

#include "call.h"
#include "kernels.h"

static inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

// piece returns how many of total bytes lie in the i-th chunk.
static inline size_t piece(size_t total, size_t i, size_t chunk) {
	size_t begin = i * chunk;
	return begin >= total ? 0 : smaller(chunk, total - begin);
}

static inline size_t pieces(size_t total, size_t chunk) { return (total + chunk - 1) / chunk; }

// blocks says how many bytes are each rank's in the calls that have one block for each.
struct blocks {
	const int64_t *counts; // NULL: all have equal
	size_t equal, size;
};

static inline struct blocks blocks_of(const struct call *c) {
	return (struct blocks){c->counts, c->count, dtype_size(c->dtype)};
}

static inline size_t block_bytes(const struct blocks *b, int i) {
	return (b->counts ? (size_t)b->counts[i] : b->equal) * b->size;
}

static inline size_t block_offset(const struct blocks *b, int i) {
	if (!b->counts) return (size_t)i * b->equal * b->size;
	size_t elements = 0;
	for (int k = 0; k < i; k++) elements += (size_t)b->counts[k];
	return elements * b->size;
}

static inline size_t block_largest(const struct blocks *b, int n) {
	if (!b->counts) return b->equal * b->size;
	size_t largest = 0;
	for (int i = 0; i < n; i++)
		if (block_bytes(b, i) > largest) largest = block_bytes(b, i);
	return largest;
}

#endif
