// Calls whose data fits in lines or on shelves: one store publishes sequence number, signature and data at once, and nobody waits for a second
// message.
#include "calls.h"

// shelf_open finds the place of a call's data that does not fit in a line: the same for all ranks, in use or not.
void shelf_open(struct engine *e, size_t bytes) {
	e->shelved = bytes > LINE_PAYLOAD;
	if (!e->shelved) return;
	uint64_t n = units(bytes), place = place_from(&e->layout.shelf, e->shelf, n);
	e->shelf = place + n;
	e->shelf_at = offset_at(&e->layout.shelf, place);
}

static char *shelf_of(const struct engine *e, int rank) {
	return e->base + e->layout.shelves + (size_t)rank * e->layout.shelf_size + e->shelf_at;
}

// payload_copy is copy without a call for the commonest sizes.
static inline void payload_copy(void *to, const void *from, size_t bytes) {
	switch (bytes) {
	case 4: memcpy(to, from, 4); break;
	case 8: memcpy(to, from, 8); break;
	default: copy(to, from, bytes, 0);
	}
}

// begin announces the call with these bytes.
static int begin(struct engine *e, const struct call *c, const void *data, size_t bytes) {
	struct announcement a = announcement_of(e, c);
	struct line *mine;
	TRY(call_begin(e, &a, e->shelved ? signature_large(&a) : signature_small(&a), &mine));
	if (e->shelved) {
		memcpy(mine->payload, &a, sizeof a);
		write_room(&e->ring, shelf_of(e, e->me), data, bytes);
	} else if (bytes) {
		payload_copy(mine->payload, data, bytes);
	}
	line_post(e, mine);
	return RUN_OK;
}

// arrived waits for rank's line and points to its data.
static inline int arrived(struct engine *e, int rank, const char **data) {
	struct line *theirs;
	TRY(line_get(e, rank, &theirs));
	*data = theirs->payload;
	if (!e->shelved) return RUN_OK;
	*data = shelf_of(e, rank);
	return announce_check(e, rank);
}

int small_barrier(struct engine *e) {
	struct announcement a = {.kind = K_BARRIER};
	struct line *l;
	TRY(call_begin(e, &a, signature_small(&a), &l));
	line_post(e, l);
	for (int i = 0; i < e->n; i++)
		if (i != e->me) TRY(line_get(e, i, &l));
	return call_end(e, SEEN_ALL);
}

int small_agree(struct engine *e, const struct call *c) {
	struct announcement a = announcement_of(e, c);
	TRY(announce_to_all(e, &a));
	return call_end(e, SEEN_ALL);
}

int small_nothing(struct engine *e, const struct call *c) {
	shelf_open(e, 0);
	TRY(begin(e, c, NULL, 0));
	return call_end(e, SEEN_NONE);
}

// gather_inputs makes e->inputs point to every rank's contribution: own for ourselves, the lines of the others, behind offset.
static int gather_inputs(struct engine *e, const void *own, size_t offset) {
	for (int i = 0; i < e->n; i++) {
		const char *theirs;
		if (i == e->me) {
			e->inputs[i] = (const char *)own + offset;
			continue;
		}
		TRY(arrived(e, i, &theirs));
		e->inputs[i] = theirs + offset;
	}
	return RUN_OK;
}

int small_allreduce(struct engine *e, const struct call *c, size_t bytes) {
	TRY(begin(e, c, c->send, bytes));
	TRY(gather_inputs(e, c->send, 0));
	reduce_inputs(e, c, c->recv, NULL, bytes, 0);
	return call_end(e, SEEN_ALL);
}

int small_reduce(struct engine *e, const struct call *c, size_t bytes) {
	TRY(begin(e, c, c->send, bytes));
	if (e->me != c->root) return call_end(e, SEEN_NONE);
	TRY(gather_inputs(e, c->send, 0));
	reduce_inputs(e, c, c->recv, NULL, bytes, 0);
	return call_end(e, SEEN_ALL);
}

int small_reducescatter(struct engine *e, const struct call *c, size_t bytes) {
	size_t own = bytes / (size_t)e->n;
	TRY(begin(e, c, c->send, bytes));
	TRY(gather_inputs(e, c->send, own * (size_t)e->me));
	reduce_inputs(e, c, (char *)c->recv + (c->send == c->recv ? own * (size_t)e->me : 0), NULL, own, 0);
	return call_end(e, SEEN_ALL);
}

int small_broadcast(struct engine *e, const struct call *c, size_t bytes) {
	if (e->me == c->root) {
		TRY(begin(e, c, c->recv, bytes));
		return call_end(e, SEEN_NONE);
	}
	const char *data;
	TRY(begin(e, c, NULL, 0));
	TRY(arrived(e, c->root, &data));
	payload_copy(c->recv, data, bytes);
	return call_end(e, SEEN_ROOT);
}

// place_block puts a rank's block where it belongs; in place it is there already.
static void place_block(char *to, const void *from, size_t bytes) {
	if (to != from) payload_copy(to, from, bytes);
}

static int collect_blocks(struct engine *e, const struct call *c, const void *own, size_t bytes) {
	for (int i = 0; i < e->n; i++) {
		const char *theirs;
		char *to = (char *)c->recv + bytes * (size_t)i;
		if (i == e->me) {
			place_block(to, own, bytes);
			continue;
		}
		TRY(arrived(e, i, &theirs));
		payload_copy(to, theirs, bytes);
	}
	return call_end(e, SEEN_ALL);
}

// own_block is what the rank sends in a gather: in place it lies where the result goes.
static const void *own_block(struct engine *e, const struct call *c, size_t bytes) {
	return c->send == c->recv ? (const char *)c->recv + bytes * (size_t)e->me : c->send;
}

int small_allgather(struct engine *e, const struct call *c, size_t bytes) {
	const void *own = own_block(e, c, bytes);
	TRY(begin(e, c, own, bytes));
	return collect_blocks(e, c, own, bytes);
}

int small_gather(struct engine *e, const struct call *c, size_t bytes) {
	if (e->me != c->root) {
		TRY(begin(e, c, c->send, bytes));
		return call_end(e, SEEN_NONE);
	}
	TRY(begin(e, c, NULL, 0));
	return collect_blocks(e, c, own_block(e, c, bytes), bytes);
}

int small_scatter(struct engine *e, const struct call *c, size_t bytes) {
	size_t own = bytes / (size_t)e->n, offset = own * (size_t)e->me;
	if (e->me == c->root) {
		TRY(begin(e, c, c->send, bytes));
		if (c->send != c->recv) payload_copy(c->recv, (const char *)c->send + offset, own);
		return call_end(e, SEEN_NONE);
	}
	const char *data;
	TRY(begin(e, c, NULL, 0));
	TRY(arrived(e, c->root, &data));
	payload_copy(c->recv, data + offset, own);
	return call_end(e, SEEN_ROOT);
}

int small_alltoall(struct engine *e, const struct call *c, size_t bytes) {
	size_t block = bytes / (size_t)e->n, offset = block * (size_t)e->me;
	TRY(begin(e, c, c->send, bytes));
	for (int i = 0; i < e->n; i++) {
		const char *theirs;
		char *to = (char *)c->recv + block * (size_t)i;
		if (i == e->me) {
			place_block(to, (const char *)c->send + offset, block);
			continue;
		}
		TRY(arrived(e, i, &theirs));
		payload_copy(to, theirs + offset, block);
	}
	return call_end(e, SEEN_ALL);
}
