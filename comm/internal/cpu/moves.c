// Collectives that move data without reducing it, through rings: root or owner puts chunks, the others take them.
#include "calls.h"

static int put_chunk(struct engine *e, const void *data, size_t bytes) {
	TRY(ring_write(e, data, bytes));
	ring_publish(e);
	return RUN_OK;
}

int ring_broadcast(struct engine *e, const struct call *c) {
	size_t bytes = c->count * dtype_size(c->dtype), chunk = e->layout.chunk;
	int streaming = bytes >= STREAMED_BYTES, root = c->root;
	char *buffer = c->recv;
	struct announcement a = announcement_of(e, c);
	TRY(announce_begin(e, &a));
	for (size_t at = 0; at < bytes; at += chunk) {
		size_t part = smaller(chunk, bytes - at);
		const char *data;
		if (e->me == root) {
			TRY(put_chunk(e, buffer + at, part));
			continue;
		}
		TRY(ring_take(e, root, part, &data));
		if (at == 0) TRY(announce_check(e, root));
		copy(buffer + at, data, part, streaming);
		ring_release(e, root);
	}
	return call_finish(e, streaming, e->me == root ? SEEN_NONE : SEEN_ROOT);
}

// own_block is what the rank contributes to a gather: in place it lies where the result goes.
static const char *own_block(struct engine *e, const struct call *c, const struct blocks *b) {
	return c->send == c->recv ? (const char *)c->recv + block_offset(b, e->me) : c->send;
}

// take_chunk copies the j-th chunk of rank i's block to its place.
static int take_chunk(struct engine *e, const struct call *c, const struct blocks *b, size_t j, int i, int streaming) {
	size_t chunk = e->layout.chunk, part = piece(block_bytes(b, i), j, chunk);
	const char *data;
	if (!part) return RUN_OK;
	TRY(ring_take(e, i, part, &data));
	if (j == 0) TRY(announce_check(e, i));
	copy((char *)c->recv + block_offset(b, i) + j * chunk, data, part, streaming);
	ring_release(e, i);
	return RUN_OK;
}

int ring_allgather(struct engine *e, const struct call *c) {
	struct blocks b = blocks_of(c);
	size_t chunk = e->layout.chunk, largest = block_largest(&b, e->n), n = pieces(largest, chunk);
	const char *own = own_block(e, c, &b);
	char *place = (char *)c->recv + block_offset(&b, e->me);
	int streaming = largest * (size_t)e->n >= STREAMED_BYTES, all = 1;
	struct announcement a = announcement_of(e, c);
	TRY(announce_begin(e, &a));
	for (size_t j = 0; j < n + LOOK_AHEAD; j++) {
		size_t part = piece(block_bytes(&b, e->me), j, chunk);
		if (part) {
			TRY(put_chunk(e, own + j * chunk, part));
			if (own != place) copy(place + j * chunk, own + j * chunk, part, streaming);
		}
		for (int k = 1; k < e->n && j >= LOOK_AHEAD; k++) TRY(take_chunk(e, c, &b, j - LOOK_AHEAD, (e->me + k) % e->n, streaming));
	}
	for (int i = 0; i < e->n; i++) all &= block_bytes(&b, i) > 0;
	return call_finish(e, streaming, all ? SEEN_ALL : SEEN_NONE);
}

// pass_block passes a rank's whole block, which is for the root.
static void pass_block(struct engine *e, int rank, size_t bytes) {
	for (size_t at = 0; at < bytes; at += e->layout.chunk) ring_skip(e, rank, smaller(e->layout.chunk, bytes - at));
	ring_release(e, rank);
}

static int gather_to_root(struct engine *e, const struct call *c, const struct blocks *b, int streaming) {
	size_t n = pieces(block_bytes(b, 0), e->layout.chunk);
	for (size_t j = 0; j < n; j++)
		for (int k = 1; k < e->n; k++) TRY(take_chunk(e, c, b, j, (e->me + k) % e->n, streaming));
	const char *own = own_block(e, c, b);
	char *place = (char *)c->recv + block_offset(b, e->me);
	if (own != place) copy(place, own, block_bytes(b, e->me), streaming);
	return RUN_OK;
}

int ring_gather(struct engine *e, const struct call *c) {
	struct blocks b = blocks_of(c);
	size_t bytes = block_bytes(&b, 0), chunk = e->layout.chunk;
	int streaming = bytes * (size_t)e->n >= STREAMED_BYTES;
	struct announcement a = announcement_of(e, c);
	TRY(announce_begin(e, &a));
	if (e->me == c->root) {
		TRY(gather_to_root(e, c, &b, streaming));
		return call_finish(e, streaming, SEEN_ALL);
	}
	for (int i = 0; i < e->n; i++)
		if (i != e->me && i != c->root) pass_block(e, i, bytes);
	for (size_t at = 0; at < bytes; at += chunk) TRY(put_chunk(e, (const char *)c->send + at, smaller(chunk, bytes - at)));
	return call_finish(e, 0, SEEN_NONE);
}

// put_rows gives every other rank the chunk at this offset of its block in from.
static int put_rows(struct engine *e, const char *from, size_t block, size_t at, size_t part) {
	for (int i = 0; i < e->n; i++)
		if (i != e->me) TRY(put_chunk(e, from + (size_t)i * block + at, part));
	return RUN_OK;
}

// take_row copies our chunk of rank's row and passes the others'.
static int take_row(struct engine *e, int rank, char *to, size_t part, int streaming, int check) {
	for (int q = 0; q < e->n; q++) {
		const char *data;
		if (q == rank) continue;
		if (q != e->me) {
			ring_skip(e, rank, part);
			continue;
		}
		TRY(ring_take(e, rank, part, &data));
		if (check) TRY(announce_check(e, rank));
		copy(to, data, part, streaming);
	}
	ring_release(e, rank);
	return RUN_OK;
}

int ring_scatter(struct engine *e, const struct call *c) {
	size_t block = c->count * dtype_size(c->dtype), chunk = e->layout.chunk;
	int streaming = block >= STREAMED_BYTES;
	struct announcement a = announcement_of(e, c);
	TRY(announce_begin(e, &a));
	for (size_t at = 0; at < block; at += chunk) {
		size_t part = smaller(chunk, block - at);
		if (e->me == c->root) TRY(put_rows(e, c->send, block, at, part));
		else TRY(take_row(e, c->root, (char *)c->recv + at, part, streaming, at == 0));
	}
	if (e->me == c->root && c->send != c->recv) copy(c->recv, (const char *)c->send + block * (size_t)e->me, block, streaming);
	return call_finish(e, streaming, e->me == c->root ? SEEN_NONE : SEEN_ROOT);
}

// alltoall_step puts the chunk at this offset for everybody and moves our own.
static int alltoall_step(struct engine *e, const struct call *c, size_t block, size_t at, int streaming) {
	size_t part = smaller(e->layout.chunk, block - at), own = (size_t)e->me * block + at;
	TRY(put_rows(e, c->send, block, at, part));
	if (c->send != c->recv) copy((char *)c->recv + own, (const char *)c->send + own, part, streaming);
	return RUN_OK;
}

int ring_alltoall(struct engine *e, const struct call *c) {
	size_t block = c->count * dtype_size(c->dtype), chunk = e->layout.chunk;
	int streaming = block * (size_t)e->n >= STREAMED_BYTES;
	struct announcement a = announcement_of(e, c);
	TRY(announce_begin(e, &a));
	for (size_t at = 0; at < block + LOOK_AHEAD * chunk; at += chunk) {
		if (at < block) TRY(alltoall_step(e, c, block, at, streaming));
		if (at < LOOK_AHEAD * chunk) continue;
		size_t behind = at - LOOK_AHEAD * chunk;
		if (behind >= block) continue;
		for (int k = 1; k < e->n; k++) {
			int i = (e->me + k) % e->n;
			char *to = (char *)c->recv + (size_t)i * block + behind;
			TRY(take_row(e, i, to, smaller(chunk, block - behind), streaming, behind == 0));
		}
	}
	return call_finish(e, streaming, SEEN_ALL);
}
