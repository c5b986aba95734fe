// Messages from one rank to one other: Send, Recv, SendRecv and the collectives in which only the two know how much goes between them. Each ordered
// pair of ranks has lines and a ring of its own; a message's line carries its type and length, and its data where that fits.
#include "calls.h"

static inline struct announcement message_of(const struct call *c, size_t count) {
	return (struct announcement){.kind = K_SEND, .dtype = (uint8_t)c->dtype, .count = count};
}

static uint64_t head_of(uint32_t signature, uint64_t sequence) { return (uint64_t)signature << 32 | (uint32_t)sequence; }

// put_announced puts a message into the ring that the line will announce, as those on shelves are: the receiver waits for one word.
static int put_announced(struct engine *e, int rank, const void *data, size_t bytes) {
	char *room;
	if (bytes <= LINE_PAYLOAD || bytes > SHELF_BYTES) return RUN_OK;
	TRY(pair_put(e, rank, bytes, &room));
	write_room(&e->to[rank], room, data, bytes);
	return RUN_OK;
}

static void take_announced(struct engine *e, int rank, void *to, size_t bytes) {
	if (bytes <= LINE_PAYLOAD || bytes > SHELF_BYTES) return;
	copy(to, pair_announced(e, rank, bytes), bytes, 0);
	pair_release(e, rank);
}

// send_begin writes the line of the next message to rank, with its data where that fits.
static int send_begin(struct engine *e, const struct call *c, int rank, const void *data, size_t count) {
	struct pair *p = pair_of(e, e->me, rank);
	struct messages *m = &e->sent[rank];
	struct announcement a = message_of(c, count);
	size_t bytes = count * dtype_size(c->dtype);
	uint64_t k = ++m->sequence;
	if ((int64_t)(m->floor - (k - PAIR_LINES)) < 0) {
		TRY(wait_counter(e, &p->acked.value, k - PAIR_LINES, rank, CH_PAIR));
		m->floor = atomic_load_explicit(&p->acked.value, memory_order_acquire);
	}
	struct line *l = &p->lines[k % PAIR_LINES];
	int small = bytes <= LINE_PAYLOAD;
	TRY(put_announced(e, rank, data, bytes));
	if (bytes && small) memcpy(l->payload, data, bytes);
	if (!small) memcpy(l->payload, &a, sizeof a);
	post(e, &l->head, head_of(small ? signature_small(&a) : signature_large(&a), k), CH_PAIR);
	return RUN_OK;
}

// differs reports two ends of a message that disagree about it, in the words of the calls made.
static int differs(struct engine *e, const struct call *c, int rank, const struct line *l, size_t count) {
	struct announcement theirs;
	announcement_read((uint32_t)(atomic_load(&l->head) >> 32), l, &theirs);
	theirs.root = (uint32_t)group_rank(e, e->me);
	e->announced = (struct announcement){.kind = (uint8_t)c->kind, .dtype = (uint8_t)c->dtype, .root = (uint32_t)group_rank(e, rank), .count = count};
	return fail_mismatch(e, rank, &theirs);
}

// recv_begin waits for the next message of rank, and takes its data where that is in the line.
static int recv_begin(struct engine *e, const struct call *c, int rank, void *data, size_t count) {
	struct pair *p = pair_of(e, rank, e->me);
	struct messages *m = &e->received[rank];
	struct announcement a = message_of(c, count);
	size_t bytes = count * dtype_size(c->dtype);
	int small = bytes <= LINE_PAYLOAD;
	uint64_t k = ++m->sequence;
	struct line *l = &p->lines[k % PAIR_LINES];
	TRY(wait_line(e, l, k, rank, CH_PAIR));
	uint64_t head = atomic_load_explicit(&l->head, memory_order_acquire);
	if (head >> 32 != (small ? signature_small(&a) : signature_large(&a))) return differs(e, c, rank, l, count);
	if (!small && ((const struct announcement *)l->payload)->count != count) return differs(e, c, rank, l, count);
	if (bytes && small) memcpy(data, l->payload, bytes);
	take_announced(e, rank, data, bytes);
	if (k % (PAIR_LINES / 4) == 0) post(e, &p->acked.value, k, CH_PAIR);
	return RUN_OK;
}

static int send_chunk(struct engine *e, int rank, const char *data, size_t bytes) {
	char *room;
	TRY(pair_put(e, rank, bytes, &room));
	write_room(&e->to[rank], room, data, bytes);
	pair_publish(e, rank);
	return RUN_OK;
}

static int recv_chunk(struct engine *e, int rank, char *to, size_t bytes, int streaming) {
	const char *data;
	TRY(pair_take(e, rank, bytes, &data));
	copy(to, data, bytes, streaming);
	pair_release(e, rank);
	return RUN_OK;
}

// A transfer is one message of which both its ends keep track.
struct transfer {
	int rank;
	char *data;
	size_t bytes; // that go through the ring in chunks: 0 where the line held or announced everything
};

static struct transfer transfer_of(int rank, const void *data, size_t count, size_t size) {
	size_t bytes = count * size;
	return (struct transfer){rank, (char *)data, bytes > SHELF_BYTES ? bytes : 0};
}

// exchange moves the chunks of all transfers, a chunk of each in turn, so that no rank fills a ring whose reader waits for it.
static int exchange(struct engine *e, const struct transfer *out, const struct transfer *in, int n) {
	size_t chunk = e->layout.chunk, most = 0, total = 0;
	for (int i = 0; i < n; i++) {
		if (out[i].bytes > most) most = out[i].bytes;
		if (in[i].bytes > most) most = in[i].bytes;
		total += in[i].bytes;
	}
	int streaming = total >= STREAMED_BYTES;
	for (size_t j = 0; most && j < pieces(most, chunk) + LOOK_AHEAD; j++) {
		for (int i = 0; i < n; i++) {
			size_t part = piece(out[i].bytes, j, chunk);
			if (part) TRY(send_chunk(e, out[i].rank, out[i].data + j * chunk, part));
		}
		for (int i = 0; i < n && j >= LOOK_AHEAD; i++) {
			size_t at = (j - LOOK_AHEAD) * chunk, part = piece(in[i].bytes, j - LOOK_AHEAD, chunk);
			if (part) TRY(recv_chunk(e, in[i].rank, in[i].data + at, part, streaming));
		}
	}
	if (streaming) copy_fence();
	return RUN_OK;
}

// alone makes a failure name the message where it belongs to no collective.
static void alone(struct engine *e, const struct call *c) {
	if (!e->signature) e->announced = announcement_of(e, c);
}

int pair_send(struct engine *e, const struct call *c) {
	alone(e, c);
	struct transfer out = transfer_of(c->root, c->send, c->count, dtype_size(c->dtype)), none = {0};
	TRY(send_begin(e, c, c->root, c->send, c->count));
	return exchange(e, &out, &none, 1);
}

int pair_recv(struct engine *e, const struct call *c) {
	alone(e, c);
	struct transfer none = {0}, in = transfer_of(c->root, c->recv, c->count, dtype_size(c->dtype));
	TRY(recv_begin(e, c, c->root, c->recv, c->count));
	return exchange(e, &none, &in, 1);
}

// A rank may send to itself: its pair with itself works like any other, as long as it puts before it takes.
int pair_sendrecv(struct engine *e, const struct call *c) {
	alone(e, c);
	size_t size = dtype_size(c->dtype);
	struct transfer out = transfer_of(c->root, c->send, c->count, size);
	struct transfer in = transfer_of(c->from, c->recv, c->recv_count, size);
	TRY(send_begin(e, c, c->root, c->send, c->count));
	TRY(recv_begin(e, c, c->from, c->recv, c->recv_count));
	return exchange(e, &out, &in, 1);
}

static int begin(struct engine *e, const struct call *c) {
	struct announcement a = announcement_of(e, c);
	return announce_begin(e, &a);
}

static size_t offset_in(const int64_t *counts, int rank, size_t size) {
	struct blocks b = {counts, 0, size};
	return block_offset(&b, rank);
}

static void move_own(void *to, const void *from, size_t bytes) {
	if (to != from && bytes) copy(to, from, bytes, 0);
}

int pair_gatherv(struct engine *e, const struct call *c) {
	size_t size = dtype_size(c->dtype);
	TRY(begin(e, c));
	if (e->me != c->root) {
		TRY(pair_send(e, c));
		return call_end(e, SEEN_NONE);
	}
	for (int i = 0; i < e->n; i++) {
		char *to = (char *)c->recv + offset_in(c->counts, i, size);
		size_t count = (size_t)c->counts[i];
		struct transfer none = {0}, in = transfer_of(i, to, count, size);
		if (i == e->me) {
			move_own(to, c->send == c->recv ? to : c->send, count * size);
			continue;
		}
		TRY(recv_begin(e, c, i, to, count));
		TRY(exchange(e, &none, &in, 1));
	}
	return call_end(e, SEEN_NONE);
}

int pair_scatterv(struct engine *e, const struct call *c) {
	size_t size = dtype_size(c->dtype);
	TRY(begin(e, c));
	if (e->me != c->root) {
		TRY(pair_recv(e, c));
		return call_end(e, SEEN_NONE);
	}
	for (int i = 0; i < e->n; i++) {
		const char *from = (const char *)c->send + offset_in(c->counts, i, size);
		size_t count = (size_t)c->counts[i];
		struct transfer out = transfer_of(i, from, count, size), none = {0};
		if (i == e->me) {
			move_own(c->send == c->recv ? (void *)from : c->recv, from, count * size);
			continue;
		}
		TRY(send_begin(e, c, i, from, count));
		TRY(exchange(e, &out, &none, 1));
	}
	return call_end(e, SEEN_NONE);
}

// alltoallv_with exchanges our blocks with the rank that is that far ahead of us and the one that is as far behind.
static int alltoallv_with(struct engine *e, const struct call *c, int distance) {
	size_t size = dtype_size(c->dtype);
	int to = (e->me + distance) % e->n, from = (e->me - distance + e->n) % e->n;
	size_t out_count = (size_t)c->send_counts[to], in_count = (size_t)c->recv_counts[from];
	const char *out_data = (const char *)c->send + offset_in(c->send_counts, to, size);
	char *in_data = (char *)c->recv + offset_in(c->recv_counts, from, size);
	struct transfer out = transfer_of(to, out_data, out_count, size), in = transfer_of(from, in_data, in_count, size);
	TRY(send_begin(e, c, to, out_data, out_count));
	TRY(recv_begin(e, c, from, in_data, in_count));
	return exchange(e, &out, &in, 1);
}

int pair_alltoallv(struct engine *e, const struct call *c) {
	size_t size = dtype_size(c->dtype);
	TRY(begin(e, c));
	for (int d = 1; d < e->n; d++) TRY(alltoallv_with(e, c, d));
	char *to = (char *)c->recv + offset_in(c->recv_counts, e->me, size);
	const char *own = (const char *)c->send + offset_in(c->send_counts, e->me, size);
	move_own(to, own, (size_t)c->send_counts[e->me] * size);
	return call_end(e, SEEN_NONE);
}
