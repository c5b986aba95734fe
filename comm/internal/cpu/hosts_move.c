// Calls over hosts that move data without reducing it.
#include <string.h>

#include "team.h"

static int local_barrier(struct engine *e) {
	struct call c = {.kind = K_BARRIER};
	return run_local(e, &c);
}

// hosts_barrier: the ranks of each host meet, one of each meets those of other hosts in rounds of growing distance (dissemination), and
// they meet again.
int hosts_barrier(struct engine *e) {
	struct hosts *h = e->hosts;
	if (e->n > 1) TRY(local_barrier(e));
	for (int distance = 1; e->me == 0 && distance < h->count; distance *= 2) {
		int n = 0;
		flow_to(e, &n, member(h, (h->home + distance) % h->count, 0), NULL, 0);
		flow_from(e, &n, member(h, (h->home - distance + h->count) % h->count, 0), NULL, 0);
		TRY(net_run(e, n, NULL, NULL));
	}
	return e->n > 1 ? local_barrier(e) : RUN_OK;
}

// --- broadcast ---

struct branch { // places are counted from the root's host
	int place, parent, mask; // mask: children are at place + mask and its halves
};

static struct branch branch_of(const struct hosts *h, int root_host) {
	struct branch b = {.place = (h->home - root_host + h->count) % h->count, .parent = -1, .mask = 1};
	while (b.mask < h->count && !(b.place & b.mask)) b.mask *= 2;
	if (b.place) b.parent = b.place - b.mask;
	b.mask /= 2;
	return b;
}

// tree_down: along a binomial tree every host has the data after log2 of their number steps.
static int tree_down(struct engine *e, const struct team *t, int root_host, char *data, size_t bytes) {
	struct hosts *h = e->hosts;
	struct branch b = branch_of(h, root_host);
	int n = 0;
	if (b.parent >= 0) {
		flow_from(e, &n, team_rank(h, t, (b.parent + root_host) % h->count), data, bytes);
		TRY(net_run(e, n, NULL, NULL));
		n = 0;
	}
	for (int mask = b.mask; mask > 0; mask /= 2)
		if (b.place + mask < h->count) flow_to(e, &n, team_rank(h, t, (b.place + mask + root_host) % h->count), data, bytes);
	return net_run(e, n, NULL, NULL);
}

// chain_down: every host passes on what comes while it comes, so that each byte leaves each host once.
static int chain_down(struct engine *e, const struct team *t, int root_host, char *data, size_t bytes) {
	struct hosts *h = e->hosts;
	int place = (h->home - root_host + h->count) % h->count, n = 0;
	struct flow *in = NULL, *out;
	if (place) in = flow_from(e, &n, team_rank(h, t, (h->home + h->count - 1) % h->count), data, bytes);
	if (place < h->count - 1) {
		out = flow_to(e, &n, team_rank(h, t, (h->home + 1) % h->count), data, bytes);
		if (in) out->gate = &in->moved;
	}
	return net_run(e, n, NULL, NULL);
}

static int team_down(struct engine *e, const struct team *t, int root_host, char *data, size_t bytes) {
	return (bytes < CHAIN_BYTES ? tree_down : chain_down)(e, t, root_host, data, bytes);
}

static int local_broadcast(struct engine *e, const struct call *c, int root) {
	struct call inner = *c;
	inner.kind = K_BROADCAST;
	inner.root = root;
	inner.send = inner.recv;
	return e->n > 1 ? run_local(e, &inner) : RUN_OK;
}

static int leader_broadcast(struct engine *e, const struct call *c, size_t bytes) {
	struct hosts *h = e->hosts;
	int host = h->host_of[c->root], lead = h->home == host ? h->index_of[c->root] : 0;
	struct team t = {.index = 0, .host = host, .rank = c->root};
	if (e->me == lead) TRY(team_down(e, &t, host, c->recv, bytes));
	return local_broadcast(e, c, lead);
}

// rail_broadcast: the root's host has everything first, then each rail brings a slice to the other hosts.
static int rail_broadcast(struct engine *e, const struct call *c) {
	struct hosts *h = e->hosts;
	int host = h->host_of[c->root];
	struct team t = {.index = e->me, .host = -1};
	size_t size = dtype_size(c->dtype), at = rail_counts(e, c->count, size) * size;
	if (h->home == host) TRY(local_broadcast(e, c, h->index_of[c->root]));
	if (e->me < h->rails) TRY(team_down(e, &t, host, (char *)c->recv + at, (size_t)h->counts[e->me] * size));
	if (h->home == host) return RUN_OK;
	struct call last = *c;
	last.kind = K_ALLGATHERV;
	last.root = 0;
	last.send = last.recv;
	last.counts = h->counts;
	last.count = (size_t)h->counts[e->me];
	return run_local(e, &last);
}

int hosts_broadcast(struct engine *e, const struct call *c) {
	size_t bytes = c->count * dtype_size(c->dtype);
	return e->hosts->rails > 1 && bytes >= CHAIN_BYTES ? rail_broadcast(e, c) : leader_broadcast(e, c, bytes);
}

// --- all-gather ---

static void put_block(char *to, const char *from, size_t bytes) {
	if (to != from && bytes) copy(to, from, bytes, 0);
}

// unpack copies blocks that lie in the order of the hosts to their places.
static void unpack(const struct hosts *h, const struct blocks *b, char *to, const char *packed) {
	for (int i = 0; i < h->n; i++) {
		size_t bytes = block_bytes(b, h->members[i]);
		put_block(to + block_offset(b, h->members[i]), packed, bytes);
		packed += bytes;
	}
}

static size_t packed_bytes(const struct hosts *h, const struct blocks *b, int host) {
	size_t sum = 0;
	for (int i = 0; i < host_size(h, host); i++) sum += block_bytes(b, member(h, host, i));
	return sum;
}

static size_t packed_offset(const struct hosts *h, const struct blocks *b, int host) {
	size_t sum = 0;
	for (int g = 0; g < host; g++) sum += packed_bytes(h, b, g);
	return sum;
}

// swap_packed exchanges the hosts' packed blocks among their first ranks.
static int swap_packed(struct engine *e, const struct blocks *b, char *packed) {
	struct hosts *h = e->hosts;
	const char *own = packed + packed_offset(h, b, h->home);
	int n = 0;
	for (int g = 0; g < h->count; g++) {
		if (g == h->home) continue;
		flow_from(e, &n, member(h, g, 0), packed + packed_offset(h, b, g), packed_bytes(h, b, g));
		flow_to(e, &n, member(h, g, 0), own, packed_bytes(h, b, h->home));
	}
	return net_run(e, n, NULL, NULL);
}

static int packed_allgather(struct engine *e, const struct call *c, const struct blocks *b, const char *own, size_t total) {
	struct hosts *h = e->hosts;
	char *packed = net_buffer(e, 1, total + 1);
	if (!packed) return RUN_FAILED;
	struct call part = *c;
	part.kind = K_GATHERV;
	part.root = 0;
	part.send = own;
	part.recv = packed + packed_offset(h, b, h->home);
	part.count = block_bytes(b, h->me) / b->size;
	run_counts(e, b, h->home);
	part.counts = e->me == 0 ? h->counts : NULL;
	TRY(run_local(e, &part));
	if (e->me == 0) TRY(swap_packed(e, b, packed));
	struct call all = {.kind = K_BROADCAST, .dtype = c->dtype, .count = total / b->size, .recv = packed};
	TRY(local_broadcast(e, &all, 0));
	unpack(h, b, c->recv, packed);
	return RUN_OK;
}

// spread_run gives host's blocks, of which each local rank has a run, to all local ranks.
static int spread_run(struct engine *e, const struct call *c, const struct blocks *b, int host) {
	struct hosts *h = e->hosts;
	struct call inner = *c;
	inner.kind = K_ALLGATHERV;
	inner.recv = (char *)c->recv + block_offset(b, member(h, host, 0));
	inner.send = inner.recv;
	run_counts(e, b, host);
	inner.counts = h->counts;
	inner.count = (size_t)h->counts[e->me];
	return run_local(e, &inner);
}

static int spread_single(struct engine *e, const struct call *c, const struct blocks *b, int host) {
	struct hosts *h = e->hosts;
	for (int k = 0; k < host_size(h, host); k++) {
		int rank = member(h, host, k);
		struct call one = *c;
		one.counts = NULL;
		one.recv = (char *)c->recv + block_offset(b, rank);
		one.count = block_bytes(b, rank) / b->size;
		TRY(local_broadcast(e, &one, holder(h, h->home, rank)));
	}
	return RUN_OK;
}

int hosts_allgather(struct engine *e, const struct call *c) {
	struct hosts *h = e->hosts;
	struct blocks b = blocks_of(c);
	size_t total = block_offset(&b, h->n), mine = block_bytes(&b, h->me);
	char *place = (char *)c->recv + block_offset(&b, h->me);
	const char *own = c->send == c->recv ? place : c->send;
	int n = 0;
	if (h->shared && total <= PACKED_BYTES) return packed_allgather(e, c, &b, own, total);
	for (int rank = 0; rank < h->n; rank++)
		if (h->host_of[rank] != h->home && holder(h, h->home, rank) == e->me)
			flow_from(e, &n, rank, (char *)c->recv + block_offset(&b, rank), block_bytes(&b, rank));
	for (int g = 0; g < h->count; g++)
		if (g != h->home) flow_to(e, &n, member(h, g, holder(h, g, h->me)), own, mine);
	TRY(net_run(e, n, NULL, NULL));
	put_block(place, own, mine);
	for (int g = 0; g < h->count && e->n > 1; g++) TRY((adjacent(h, g) ? spread_run : spread_single)(e, c, &b, g));
	return RUN_OK;
}

// --- gather, scatter, all-to-all: every block goes straight from its owner to its receiver ---

static int local_message(struct engine *e, int kind, const struct call *c, int rank, const char *data, size_t count) {
	struct call m = {.kind = kind, .dtype = c->dtype, .root = e->hosts->index_of[rank], .count = count, .send = data, .recv = (void *)data};
	return run_local(e, &m);
}

// leaf is the part of a rank other than the root in a gather or scatter.
static int leaf(struct engine *e, const struct call *c, int out, const char *data) {
	struct hosts *h = e->hosts;
	int n = 0;
	if (h->host_of[c->root] == h->home) return local_message(e, out ? K_SEND : K_RECV, c, c->root, data, c->count);
	if (out) flow_to(e, &n, c->root, data, c->count * dtype_size(c->dtype));
	else flow_from(e, &n, c->root, (char *)data, c->count * dtype_size(c->dtype));
	return net_run(e, n, NULL, NULL);
}

// hub is the root's part: blocks lie one after the other at all. in: they come.
static int hub(struct engine *e, const struct call *c, const struct blocks *b, int in, char *all) {
	struct hosts *h = e->hosts;
	int n = 0;
	for (int i = 0; i < e->n; i++) {
		int rank = member(h, h->home, i);
		if (rank != h->me) TRY(local_message(e, in ? K_RECV : K_SEND, c, rank, all + block_offset(b, rank), block_bytes(b, rank) / b->size));
	}
	for (int rank = 0; rank < h->n; rank++) {
		if (h->host_of[rank] == h->home) continue;
		char *at = all + block_offset(b, rank);
		if (in) flow_from(e, &n, rank, at, block_bytes(b, rank));
		else flow_to(e, &n, rank, at, block_bytes(b, rank));
	}
	return net_run(e, n, NULL, NULL);
}

int hosts_gather(struct engine *e, const struct call *c) {
	struct blocks b = blocks_of(c);
	if (e->hosts->me != c->root) return leaf(e, c, 1, c->send);
	char *place = (char *)c->recv + block_offset(&b, c->root);
	if (c->send != c->recv) put_block(place, c->send, block_bytes(&b, c->root));
	return hub(e, c, &b, 1, c->recv);
}

int hosts_scatter(struct engine *e, const struct call *c) {
	struct blocks b = blocks_of(c);
	if (e->hosts->me != c->root) return leaf(e, c, 0, c->recv);
	const char *place = (const char *)c->send + block_offset(&b, c->root);
	if (c->send != c->recv) put_block(c->recv, place, block_bytes(&b, c->root));
	return hub(e, c, &b, 0, (char *)c->send);
}

static struct blocks vector_blocks(const struct call *c, const int64_t *counts) {
	return (struct blocks){c->kind == K_ALLTOALLV ? counts : NULL, c->count, dtype_size(c->dtype)};
}

// local_pairs exchanges blocks among the ranks of this host, with one after the other.
static int local_pairs(struct engine *e, const struct call *c, const struct blocks *out, const struct blocks *in, const char *send) {
	struct hosts *h = e->hosts;
	for (int d = 1; d < e->n; d++) {
		int next = (e->me + d) % e->n, last = (e->me - d + e->n) % e->n, to = member(h, h->home, next), from = member(h, h->home, last);
		struct call m = {.kind = K_SENDRECV, .dtype = c->dtype, .root = next, .from = last};
		m.send = send + block_offset(out, to);
		m.recv = (char *)c->recv + block_offset(in, from);
		m.count = block_bytes(out, to) / out->size;
		m.recv_count = block_bytes(in, from) / in->size;
		TRY(run_local(e, &m));
	}
	return RUN_OK;
}

static int local_alltoall(struct engine *e, const struct call *c, const struct blocks *out, const struct blocks *in, const char *send) {
	struct hosts *h = e->hosts;
	if (e->n > 1 && (out->counts || !adjacent(h, h->home))) {
		TRY(local_pairs(e, c, out, in, send));
	} else if (e->n > 1) {
		struct call part = *c;
		size_t at = block_offset(out, member(h, h->home, 0));
		part.send = send + at;
		part.recv = (char *)c->recv + at;
		return run_local(e, &part);
	}
	put_block((char *)c->recv + block_offset(in, h->me), send + block_offset(out, h->me), block_bytes(out, h->me));
	return RUN_OK;
}

int hosts_alltoall(struct engine *e, const struct call *c) {
	struct hosts *h = e->hosts;
	struct blocks out = vector_blocks(c, c->send_counts), in = vector_blocks(c, c->recv_counts);
	const char *send = c->send;
	int n = 0;
	if (c->send == c->recv) { // what comes would overwrite what has to go
		size_t total = block_offset(&out, h->n);
		char *saved = net_buffer(e, 1, total + 1);
		if (!saved) return RUN_FAILED;
		put_block(saved, send, total);
		send = saved;
	}
	TRY(local_alltoall(e, c, &out, &in, send));
	for (int rank = 0; rank < h->n; rank++) {
		if (h->host_of[rank] == h->home) continue;
		flow_from(e, &n, rank, (char *)c->recv + block_offset(&in, rank), block_bytes(&in, rank));
		flow_to(e, &n, rank, send + block_offset(&out, rank), block_bytes(&out, rank));
	}
	return net_run(e, n, NULL, NULL);
}

// --- messages ---

// local_part makes of a message those of its ends that are on this host.
static int local_part(struct engine *e, const struct call *c, int sends, int receives) {
	struct hosts *h = e->hosts;
	struct call m = *c;
	if (!sends && !receives) return RUN_OK;
	m.kind = sends && receives ? K_SENDRECV : sends ? K_SEND : K_RECV;
	m.root = h->index_of[sends ? c->root : c->kind == K_RECV ? c->root : c->from];
	m.from = receives ? h->index_of[c->kind == K_RECV ? c->root : c->from] : 0;
	if (c->kind == K_SENDRECV && !sends) m.count = c->recv_count;
	return run_local(e, &m);
}

int hosts_message(struct engine *e, const struct call *c) {
	struct hosts *h = e->hosts;
	size_t size = dtype_size(c->dtype), count = c->kind == K_RECV ? c->count : c->recv_count;
	int sends = c->kind != K_RECV, receives = c->kind != K_SEND, from = c->kind == K_RECV ? c->root : c->from, n = 0;
	int near_to = sends && h->host_of[c->root] == h->home, near_from = receives && h->host_of[from] == h->home;
	TRY(local_part(e, c, near_to, near_from));
	if (sends && !near_to) flow_to(e, &n, c->root, c->send, c->count * size);
	if (receives && !near_from) flow_from(e, &n, from, c->recv, count * size);
	return net_run(e, n, NULL, NULL);
}
