#include "segment.h"

static size_t align(size_t size) { return (size + 4095) & ~(size_t)4095; }

static uint64_t power_of_two(uint64_t least) {
	uint64_t p = 1;
	while (p < least) p <<= 1;
	return p;
}

// grown builds the stages from a first size in bytes: the next one comes after as much traffic as fills the present one eight times.
static struct geometry grown(size_t first, size_t second, size_t last) {
	uint64_t sizes[STAGES] = {first / UNIT, second / UNIT, last / UNIT}, end = 0;
	size_t base = 0;
	struct geometry g;
	for (int s = 0; s < STAGES; s++) {
		g.size[s] = sizes[s];
		g.base[s] = base;
		base += sizes[s] * UNIT;
		if (s + 1 == STAGES) {
			g.until[s] = UINT64_MAX;
			break;
		}
		uint64_t unit = sizes[s + 1];
		end = (end + 8 * sizes[s] + unit - 1) / unit * unit;
		g.until[s] = end;
	}
	return g;
}

// chunk_for: a chunk stays in the caches between writing and reading. Ranks that share CPUs take turns, so that less would go through the caches
// anyway and each chunk costs a change of turns: theirs are larger.
static size_t chunk_for(int n, int crowded) {
	size_t chunk = n <= 4 ? 32 << 10 : n <= 16 ? 16 << 10 : 8 << 10;
	return crowded ? 4 * chunk : chunk;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

struct layout gorun_layout_for(int n, int crowded) {
	struct layout l = {.chunk = chunk_for(n, crowded)};
	// A rank has up to two blocks of n chunks and two results in its ring before it takes anything: see sliced in reductions.c.
	size_t first = power_of_two(2 * (2 * (size_t)n + 2) * l.chunk);
	size_t middle = larger(first, 1 << 20), last = larger(first, 4 << 20);
	l.ring = grown(first, middle, last);
	l.ring_size = first + middle + last;
	size_t pair_first = larger(128 << 10, 4 * l.chunk), pair_middle = larger(256 << 10, pair_first);
	size_t pair_last = larger(n <= 64 ? 1 << 20 : 256 << 10, pair_first);
	l.pair_ring = grown(pair_first, pair_middle, pair_last);
	l.pair_ring_size = pair_first + pair_middle + pair_last;
	size_t shelf_last = n <= 16 ? 4 << 20 : 1 << 20;
	_Static_assert((LINES + 1) * SHELF_BYTES <= 512 << 10, "a place comes again when its line does, or later");
	l.shelf = grown(512 << 10, 1 << 20, shelf_last);
	l.shelf_size = (512 << 10) + (1 << 20) + shelf_last;
	l.area_size = align(sizeof(struct area) + (size_t)n * sizeof(struct counter));
	l.areas = align(sizeof(struct header));
	l.pairs = l.areas + (size_t)n * l.area_size;
	l.shelves = l.pairs + (size_t)n * n * align(sizeof(struct pair));
	l.rings = l.shelves + (size_t)n * l.shelf_size;
	l.pair_rings = l.rings + (size_t)n * l.ring_size;
	l.total = l.pair_rings + (size_t)n * n * l.pair_ring_size;
	return l;
}
