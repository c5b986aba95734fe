// Reductions of more than a line, through rings. Every element is reduced by one rank, or by each in the same way, always in rank order: same inputs
// and same ranks give the same bits.
#include "calls.h"

// take_inputs points e->inputs to the next bytes of every other rank's ring, and to own for ourselves.
static int take_inputs(struct engine *e, const void *own, size_t bytes, int check) {
	for (int i = 0; i < e->n; i++) {
		const char *data = own;
		if (i != e->me) TRY(ring_take(e, i, bytes, &data));
		if (i != e->me && check) TRY(announce_check(e, i));
		e->inputs[i] = data;
	}
	return RUN_OK;
}

static void release_all(struct engine *e) {
	for (int i = 0; i < e->n; i++)
		if (i != e->me) ring_release(e, i);
}

// flat_allreduce: everybody puts everything and reduces everything, chunk by chunk. For two ranks that is the best at any size: each byte
// crosses once in each direction, and no second phase waits.
int flat_allreduce(struct engine *e, const struct call *c) {
	size_t bytes = c->count * dtype_size(c->dtype), chunk = e->layout.chunk, n = pieces(bytes, chunk);
	int streaming = bytes >= STREAMED_BYTES;
	const char *in = c->send;
	char *out = c->recv;
	struct announcement a = announcement_of(e, c);
	TRY(announce_begin(e, &a));
	for (size_t j = 0; j < n + LOOK_AHEAD; j++) {
		if (j < n) {
			TRY(ring_write(e, in + j * chunk, piece(bytes, j, chunk)));
			ring_publish(e);
		}
		if (j < LOOK_AHEAD) continue;
		size_t i = j - LOOK_AHEAD, part = piece(bytes, i, chunk);
		TRY(take_inputs(e, in + i * chunk, part, i == 0));
		reduce_inputs(e, c, out + i * chunk, NULL, part, streaming);
		release_all(e);
	}
	return call_finish(e, streaming, SEEN_ALL);
}

// A block is what the ranks reduce together in one step: a slice for each of them.
struct slices {
	size_t bytes, block, slice; // of the vector; of a block; of a slice in a full block
	size_t blocks;
};

static struct slices slices_of(struct engine *e, size_t bytes) {
	size_t n = (size_t)e->n, chunk = e->layout.chunk;
	size_t slice = smaller(chunk, ((bytes + n - 1) / n + UNIT - 1) / UNIT * UNIT);
	return (struct slices){bytes, slice * n, slice, pieces(bytes, slice * n)};
}

// slice_in returns the part of block b that rank owns: its offset in the vector and its length.
static size_t slice_in(const struct slices *s, size_t b, int rank, size_t *offset) {
	*offset = b * s->block + (size_t)rank * s->slice;
	return *offset >= s->bytes ? 0 : smaller(s->slice, s->bytes - *offset);
}

// put_slices gives every other rank its slice of block b.
static int put_slices(struct engine *e, const struct slices *s, const char *in, size_t b) {
	size_t offset;
	for (int i = 0; i < e->n; i++) {
		size_t part = slice_in(s, b, i, &offset);
		if (i != e->me) TRY(ring_write(e, in + offset, part));
	}
	ring_publish(e);
	return RUN_OK;
}

// take_slices points e->inputs to our slice of block b of every rank, and passes what is for others.
static int take_slices(struct engine *e, const struct slices *s, const char *in, size_t b) {
	size_t offset;
	for (int i = 0; i < e->n; i++) {
		if (i == e->me) {
			slice_in(s, b, i, &offset);
			e->inputs[i] = in + offset;
			continue;
		}
		for (int q = 0; q < e->n; q++) {
			const char *data;
			size_t part = slice_in(s, b, q, &offset);
			if (q == i) continue;
			if (q != e->me) {
				ring_skip(e, i, part);
				continue;
			}
			TRY(ring_take(e, i, part, &data));
			if (b == 0 && part) TRY(announce_check(e, i));
			e->inputs[i] = data;
		}
	}
	return RUN_OK;
}

// sliced_step reduces our slice of block b into the output and, for the others, into our ring.
static int sliced_step(struct engine *e, const struct call *c, const struct slices *s, size_t b, int streaming) {
	size_t offset, part = slice_in(s, b, e->me, &offset);
	char *room;
	TRY(take_slices(e, s, c->send, b));
	TRY(ring_put(e, part, &room));
	if (part) reduce_inputs(e, c, (char *)c->recv + offset, room, part, streaming);
	release_all(e);
	ring_publish(e);
	return RUN_OK;
}

// collect_slices copies the others' slices of block b from their rings.
static int collect_slices(struct engine *e, const struct call *c, const struct slices *s, size_t b, int streaming) {
	for (int k = 1; k < e->n; k++) {
		int i = (e->me + k) % e->n;
		const char *data;
		size_t offset, part = slice_in(s, b, i, &offset);
		TRY(ring_take(e, i, part, &data));
		if (b == 0 && part) TRY(announce_check(e, i));
		if (part) copy((char *)c->recv + offset, data, part, streaming);
		ring_release(e, i);
	}
	return RUN_OK;
}

// What a rank does with its slice of block b, and with the others' results of it.
typedef int slice_work(struct engine *e, const struct call *c, const struct slices *s, size_t b, int streaming);

// sliced works block by block: putting block b+1 overlaps with reducing b and collecting b-1.
static int sliced(struct engine *e, const struct call *c, slice_work *step, slice_work *collect) {
	struct slices s = slices_of(e, c->count * dtype_size(c->dtype));
	int streaming = s.bytes >= STREAMED_BYTES;
	struct announcement a = announcement_of(e, c);
	TRY(announce_begin(e, &a));
	for (size_t j = 0; j < s.blocks + 2 * LOOK_AHEAD; j++) {
		if (j < s.blocks) TRY(put_slices(e, &s, c->send, j));
		if (j >= LOOK_AHEAD && j - LOOK_AHEAD < s.blocks) TRY(step(e, c, &s, j - LOOK_AHEAD, streaming));
		if (j >= 2 * LOOK_AHEAD) TRY(collect(e, c, &s, j - 2 * LOOK_AHEAD, streaming));
	}
	return call_finish(e, streaming, SEEN_ALL);
}

// sliced_allreduce: in each block every rank reduces the slice that it owns and gives the result to all, so that each element is reduced once.
int sliced_allreduce(struct engine *e, const struct call *c) { return sliced(e, c, sliced_step, collect_slices); }

// pass_others passes the bytes of all rings that only the root reads. Said at once: their writers may wait for the room.
static void pass_others(struct engine *e, int root, size_t bytes) {
	for (int i = 0; i < e->n; i++) {
		if (i == e->me || i == root) continue;
		ring_skip(e, i, bytes);
		ring_release(e, i);
	}
}

// flat_reduce: everybody puts, the root reduces.
int flat_reduce(struct engine *e, const struct call *c) {
	size_t bytes = c->count * dtype_size(c->dtype), chunk = e->layout.chunk, n = pieces(bytes, chunk);
	int streaming = bytes >= STREAMED_BYTES;
	struct announcement a = announcement_of(e, c);
	TRY(announce_begin(e, &a));
	for (size_t j = 0; j < n; j++) {
		size_t part = piece(bytes, j, chunk);
		if (e->me != c->root) {
			TRY(ring_write(e, (const char *)c->send + j * chunk, part));
			ring_publish(e);
			pass_others(e, c->root, part);
			continue;
		}
		TRY(take_inputs(e, (const char *)c->send + j * chunk, part, j == 0));
		reduce_inputs(e, c, (char *)c->recv + j * chunk, NULL, part, streaming);
		release_all(e);
	}
	return call_finish(e, streaming, e->me == c->root ? SEEN_ALL : SEEN_NONE);
}

// reduce_step is sliced_step for one receiver: the root keeps its slice, the others put theirs into their rings.
static int reduce_step(struct engine *e, const struct call *c, const struct slices *s, size_t b, int streaming) {
	size_t offset, part = slice_in(s, b, e->me, &offset);
	char *out = NULL;
	TRY(take_slices(e, s, c->send, b));
	if (e->me == c->root) out = (char *)c->recv + offset;
	else TRY(ring_put(e, part, &out));
	if (part) reduce_inputs(e, c, out, NULL, part, streaming && e->me == c->root);
	release_all(e);
	if (e->me != c->root) ring_publish(e);
	return RUN_OK;
}

static int reduce_collect(struct engine *e, const struct call *c, const struct slices *s, size_t b, int streaming) {
	if (e->me == c->root) return collect_slices(e, c, s, b, streaming);
	for (int i = 0; i < e->n; i++) {
		size_t offset;
		if (i == e->me || i == c->root) continue;
		ring_skip(e, i, slice_in(s, b, i, &offset));
		ring_release(e, i);
	}
	return RUN_OK;
}

// sliced_reduce: every rank reduces its slice, the root collects. Nobody reduces (ranks-1) × the vector.
int sliced_reduce(struct engine *e, const struct call *c) { return sliced(e, c, reduce_step, reduce_collect); }

// put_row gives every other rank the j-th chunk of its block.
static int put_row(struct engine *e, const struct call *c, const struct blocks *b, size_t j) {
	size_t chunk = e->layout.chunk;
	for (int i = 0; i < e->n; i++) {
		size_t part = piece(block_bytes(b, i), j, chunk);
		if (i == e->me || !part) continue;
		TRY(ring_write(e, (const char *)c->send + block_offset(b, i) + j * chunk, part));
	}
	ring_publish(e);
	return RUN_OK;
}

// take_row waits for the j-th chunk of our block in rank i's row.
static int take_row(struct engine *e, const struct blocks *b, size_t j, int i, const char **data) {
	for (int q = 0; q < e->n; q++) {
		size_t part = piece(block_bytes(b, q), j, e->layout.chunk);
		if (q == i || !part) continue;
		if (q != e->me) ring_skip(e, i, part);
		else TRY(ring_take(e, i, part, data));
	}
	return RUN_OK;
}

int ring_reducescatter(struct engine *e, const struct call *c) {
	struct blocks b = blocks_of(c);
	size_t chunk = e->layout.chunk, n = pieces(block_largest(&b, e->n), chunk), own = block_bytes(&b, e->me);
	const char *in = (const char *)c->send + block_offset(&b, e->me);
	char *out = c->send == c->recv ? (char *)c->recv + block_offset(&b, e->me) : c->recv;
	int streaming = own * (size_t)e->n >= STREAMED_BYTES;
	struct announcement a = announcement_of(e, c);
	TRY(announce_begin(e, &a));
	for (size_t j = 0; j < n + LOOK_AHEAD; j++) {
		if (j < n) TRY(put_row(e, c, &b, j));
		if (j < LOOK_AHEAD) continue;
		size_t i = j - LOOK_AHEAD, part = piece(own, i, chunk);
		for (int q = 0; q < e->n; q++) {
			const char *data = in + i * chunk;
			if (q != e->me) TRY(take_row(e, &b, i, q, &data));
			if (q != e->me && part && i == 0) TRY(announce_check(e, q));
			e->inputs[q] = data;
		}
		if (part) reduce_inputs(e, c, out + i * chunk, NULL, part, streaming);
		release_all(e);
	}
	return call_finish(e, streaming, own > 0 ? SEEN_ALL : SEEN_NONE);
}
