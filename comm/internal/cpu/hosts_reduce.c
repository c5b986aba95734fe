// Reductions over hosts. What the ranks of a host have is reduced there first, in their order, then what the hosts have, in the order of their lowest
// ranks: same inputs and same places give the same bits. 16-bit floats are rounded once on each host with several ranks, and once between the hosts.
#include <string.h>

#include "team.h"

enum { // up to here every host reduces everything, beyond every host a slice for all
	FLAT_BYTES = 4 << 10,
	PAIR_BYTES = 4 << 20 // of two hosts: where caches are too small, half the reduction saves more than a second step costs
};

// A merge reduces our vector with those that come from one rank of every other host.
struct merge {
	const struct call *call;
	const char *own;
	char *out;
	size_t bytes, used;
	int flows; // of them the first ones come, in the order of the hosts, the others go
	int behind; // 1: own is being sent and is where the result goes
};

// averages: where all hosts have as many ranks, each averages its float16. Their sum may lie beyond what the type can hold.
static int averages(const struct hosts *h, const struct call *c) {
	return c->op == OP_AVG && c->dtype == DT_FLOAT16 && h->rails * h->count == h->n;
}

static int inner_op(const struct hosts *h, const struct call *c) { return c->op == OP_AVG && !averages(h, c) ? OP_SUM : c->op; }

static void merge_chunk(struct engine *e, struct merge *m, size_t part) {
	struct hosts *h = e->hosts;
	const struct flow *f = h->flows;
	for (int g = 0; g < h->count; g++) {
		if (g == h->home) {
			h->held[g] = m->own + m->used;
			continue;
		}
		h->held[g] = f->data + (f->window ? m->used % f->window : m->used);
		f++;
	}
	const struct call *c = m->call;
	int world = averages(h, c) ? h->count : h->n;
	reduce(c->dtype, c->op, m->out + m->used, NULL, (const void *const *)h->held, h->count, part / dtype_size(c->dtype), world, 0);
}

static int merge_use(struct engine *e, void *state, int *used) {
	struct merge *m = state;
	size_t ready = m->bytes;
	int watched = m->behind ? m->flows : e->hosts->count - 1;
	for (int i = 0; i < watched; i++) ready = smaller(ready, e->hosts->flows[i].moved);
	while (m->used < m->bytes) {
		size_t part = smaller(NET_CHUNK, m->bytes - m->used);
		if (ready < m->used + part) break;
		merge_chunk(e, m, part);
		m->used += part;
		*used = 1;
	}
	return RUN_OK;
}

// merge_flows adds what comes: the first where the result goes, unless our vector is there, others into windows where they are long.
// Without a team it comes from those that hold blocks for us.
static int merge_flows(struct engine *e, struct merge *m, const struct team *t) {
	struct hosts *h = e->hosts;
	size_t window = h->count <= 4 ? NET_WINDOW : 2 * NET_CHUNK;
	size_t room = smaller(m->bytes, window);
	int n = 0, direct = m->own != m->out;
	char *data = net_buffer(e, 0, room * (size_t)(h->count - 1 - direct) + 1);
	if (!data) return -1;
	for (int g = 0; g < h->count; g++) {
		if (g == h->home) continue;
		int rank = t ? team_rank(h, t, g) : member(h, g, holder(h, g, h->me));
		struct flow *f = flow_from(e, &n, rank, direct ? m->out : data, m->bytes);
		if (!direct && m->bytes > window) f->window = window, f->gate = &m->used;
		if (!direct) data += room;
		direct = 0;
	}
	return n;
}

// team_exchange gives everybody in the team everything.
static int team_exchange(struct engine *e, const struct call *c, const struct team *t, const char *own, char *out, size_t bytes) {
	struct hosts *h = e->hosts;
	struct merge m = {.call = c, .own = own, .out = out, .bytes = bytes, .behind = own == out};
	if ((m.flows = merge_flows(e, &m, t)) < 0) return RUN_FAILED;
	for (int g = 0; g < h->count; g++)
		if (g != h->home) flow_to(e, &m.flows, team_rank(h, t, g), own, bytes);
	return net_run(e, m.flows, merge_use, &m);
}

// A part is what one host reduces of a vector for all.
static size_t part_of(const struct hosts *h, size_t bytes, int host, size_t *offset) {
	size_t each = ((bytes + (size_t)h->count - 1) / (size_t)h->count + UNIT - 1) / UNIT * UNIT;
	*offset = smaller(bytes, each * (size_t)host);
	return smaller(each, bytes - *offset);
}

// team_divide lets everybody in the team reduce a part.
static int team_divide(struct engine *e, const struct call *c, const struct team *t, const char *own, char *out, size_t bytes) {
	struct hosts *h = e->hosts;
	size_t at, part = part_of(h, bytes, h->home, &at);
	struct merge m = {.call = c, .own = own + at, .out = out + at, .bytes = part};
	if ((m.flows = merge_flows(e, &m, t)) < 0) return RUN_FAILED;
	for (int g = 0; g < h->count; g++) {
		size_t offset, length = part_of(h, bytes, g, &offset);
		if (g != h->home) flow_to(e, &m.flows, team_rank(h, t, g), own + offset, length);
	}
	return net_run(e, m.flows, merge_use, &m);
}

// team_collect gives every part of the result to everybody in the team.
static int team_collect(struct engine *e, const struct team *t, char *out, size_t bytes) {
	struct hosts *h = e->hosts;
	size_t at, part = part_of(h, bytes, h->home, &at);
	int n = 0;
	for (int g = 0; g < h->count; g++) {
		size_t offset, length = part_of(h, bytes, g, &offset);
		if (g == h->home) continue;
		flow_from(e, &n, team_rank(h, t, g), out + offset, length);
		flow_to(e, &n, team_rank(h, t, g), out + at, part);
	}
	return net_run(e, n, NULL, NULL);
}

// team_allreduce: short vectors everybody gets whole, in one step. Otherwise each host reduces a part.
static int team_allreduce(struct engine *e, const struct call *c, int index, const char *own, char *out, size_t bytes) {
	struct team t = {.index = index, .host = -1};
	if (bytes <= (e->hosts->count == 2 ? PAIR_BYTES : FLAT_BYTES)) return team_exchange(e, c, &t, own, out, bytes);
	TRY(team_divide(e, c, &t, own, out, bytes));
	return team_collect(e, &t, out, bytes);
}

static int by_leaders(const struct hosts *h, size_t bytes) { return h->rails == 1 || bytes <= RAIL_BYTES; }

static int leader_allreduce(struct engine *e, const struct call *c, size_t bytes) {
	struct call first = *c, last = *c;
	const char *own = e->n == 1 ? c->send : c->recv;
	first.kind = K_REDUCE;
	first.op = inner_op(e->hosts, c);
	first.root = 0;
	if (e->n > 1) TRY(run_local(e, &first));
	if (e->me == 0) TRY(team_allreduce(e, c, 0, own, c->recv, bytes));
	last.kind = K_BROADCAST;
	last.root = 0;
	last.send = last.recv;
	return run_local(e, &last);
}

// scatter_rails reduces the host's vectors and gives each rail its slice at out, for the own slice in place where the call is.
static int scatter_rails(struct engine *e, const struct call *c, void *out) {
	struct call first = *c;
	first.kind = K_REDUCESCATTERV;
	first.op = inner_op(e->hosts, c);
	first.root = 0;
	first.counts = e->hosts->counts;
	first.count = (size_t)e->hosts->counts[e->me];
	first.recv = out;
	return run_local(e, &first);
}

static int rail_allreduce(struct engine *e, const struct call *c) {
	struct hosts *h = e->hosts;
	size_t size = dtype_size(c->dtype), at = rail_counts(e, c->count, size) * size;
	char *slice = (char *)c->recv + at;
	TRY(scatter_rails(e, c, c->send == c->recv ? c->recv : slice));
	if (e->me < h->rails) TRY(team_allreduce(e, c, e->me, slice, slice, (size_t)h->counts[e->me] * size));
	struct call last = *c;
	last.kind = K_ALLGATHERV;
	last.send = last.recv;
	last.counts = h->counts;
	last.count = (size_t)h->counts[e->me];
	return run_local(e, &last);
}

int hosts_allreduce(struct engine *e, const struct call *c) {
	size_t bytes = c->count * dtype_size(c->dtype);
	if (!e->hosts->shared) return team_allreduce(e, c, 0, c->send, c->recv, bytes);
	return by_leaders(e->hosts, bytes) ? leader_allreduce(e, c, bytes) : rail_allreduce(e, c);
}

// team_reduce brings everything to the team's rank at host.
static int team_reduce(struct engine *e, const struct call *c, const struct team *t, int host, const char *own, char *out, size_t bytes) {
	struct hosts *h = e->hosts;
	int n = 0;
	if (h->home != host) {
		flow_to(e, &n, team_rank(h, t, host), own, bytes);
		return net_run(e, n, NULL, NULL);
	}
	struct merge m = {.call = c, .own = own, .out = out, .bytes = bytes};
	if ((m.flows = merge_flows(e, &m, t)) < 0) return RUN_FAILED;
	return net_run(e, m.flows, merge_use, &m);
}

static int leader_reduce(struct engine *e, const struct call *c, size_t bytes) {
	struct hosts *h = e->hosts;
	int host = h->host_of[c->root];
	struct team t = {.index = 0, .host = host, .rank = c->root};
	struct call first = *c;
	first.op = inner_op(e->hosts, c);
	first.root = h->home == host ? h->index_of[c->root] : 0;
	const char *own = c->send;
	if (e->n > 1) {
		if (h->me != c->root && e->me == first.root && !(first.recv = net_buffer(e, 1, bytes + 1))) return RUN_FAILED;
		own = first.recv;
		TRY(run_local(e, &first));
	}
	if (e->me != first.root) return RUN_OK;
	return team_reduce(e, c, &t, host, own, c->recv, bytes);
}

static int rail_reduce(struct engine *e, const struct call *c) {
	struct hosts *h = e->hosts;
	int host = h->host_of[c->root];
	struct team t = {.index = e->me, .host = -1};
	size_t size = dtype_size(c->dtype);
	rail_counts(e, c->count, size);
	size_t bytes = (size_t)h->counts[e->me] * size;
	char *slice = net_buffer(e, 1, bytes + 1);
	if (!slice) return RUN_FAILED;
	TRY(scatter_rails(e, c, slice));
	if (e->me < h->rails) TRY(team_reduce(e, c, &t, host, slice, slice, bytes));
	if (h->home != host) return RUN_OK;
	struct call last = *c;
	last.kind = K_GATHERV;
	last.root = h->index_of[c->root];
	last.send = slice;
	last.counts = h->me == c->root ? h->counts : NULL;
	last.count = (size_t)h->counts[e->me];
	return run_local(e, &last);
}

int hosts_reduce(struct engine *e, const struct call *c) {
	size_t bytes = c->count * dtype_size(c->dtype);
	return by_leaders(e->hosts, bytes) ? leader_reduce(e, c, bytes) : rail_reduce(e, c);
}

// --- reduce-scatter ---

// run_partials reduces host's blocks among the local ranks: each gets its run of them, from at on.
static int run_partials(struct engine *e, const struct call *c, const struct blocks *b, int host, char **at) {
	struct hosts *h = e->hosts;
	struct call part = *c;
	part.op = inner_op(e->hosts, c);
	part.kind = K_REDUCESCATTERV;
	part.send = (const char *)c->send + block_offset(b, member(h, host, 0));
	part.recv = *at;
	run_counts(e, b, host);
	part.counts = h->counts;
	part.count = (size_t)h->counts[e->me];
	TRY(run_local(e, &part));
	for (int k = 0; k < host_size(h, host); k++) {
		int rank = member(h, host, k);
		if (holder(h, h->home, rank) != e->me) continue;
		h->held[rank] = *at;
		*at += block_bytes(b, rank);
	}
	return RUN_OK;
}

// single_partials is run_partials where host's blocks don't follow each other.
static int single_partials(struct engine *e, const struct call *c, const struct blocks *b, int host, char **at) {
	struct hosts *h = e->hosts;
	for (int k = 0; k < host_size(h, host); k++) {
		int rank = member(h, host, k);
		struct call part = *c;
		part.kind = K_REDUCE;
		part.op = inner_op(e->hosts, c);
		part.root = holder(h, h->home, rank);
		part.send = (const char *)c->send + block_offset(b, rank);
		part.recv = *at;
		part.counts = NULL;
		part.count = block_bytes(b, rank) / b->size;
		TRY(run_local(e, &part));
		if (part.root != e->me) continue;
		h->held[rank] = *at;
		*at += block_bytes(b, rank);
	}
	return RUN_OK;
}

// held_bytes is how many bytes of partial results a rank holds.
static size_t held_bytes(const struct engine *e, const struct blocks *b) {
	size_t sum = 0;
	for (int rank = 0; rank < e->hosts->n; rank++)
		if (holder(e->hosts, e->hosts->home, rank) == e->me) sum += block_bytes(b, rank);
	return sum;
}

static int partials(struct engine *e, const struct call *c, const struct blocks *b) {
	struct hosts *h = e->hosts;
	if (e->n == 1) {
		for (int rank = 0; rank < h->n; rank++) h->held[rank] = (const char *)c->send + block_offset(b, rank);
		return RUN_OK;
	}
	char *at = net_buffer(e, 1, held_bytes(e, b) + 1);
	if (!at) return RUN_FAILED;
	for (int g = 0; g < h->count; g++) TRY((adjacent(h, g) ? run_partials : single_partials)(e, c, b, g, &at));
	return RUN_OK;
}

static int block_reducescatter(struct engine *e, const struct call *c, const struct blocks *b, char *out) {
	struct hosts *h = e->hosts;
	TRY(partials(e, c, b));
	struct merge m = {.call = c, .own = h->held[h->me], .out = out, .bytes = block_bytes(b, h->me)};
	if ((m.flows = merge_flows(e, &m, NULL)) < 0) return RUN_FAILED;
	for (int rank = 0; rank < h->n; rank++)
		if (h->host_of[rank] != h->home && holder(h, h->home, rank) == e->me) flow_to(e, &m.flows, rank, h->held[rank], block_bytes(b, rank));
	return net_run(e, m.flows, merge_use, &m);
}

// whole_reducescatter reduces everything for everybody: less steps where there is little.
static int whole_reducescatter(struct engine *e, const struct call *c, const struct blocks *b, size_t total, char *out) {
	struct call all = *c;
	if (!(all.recv = net_buffer(e, 1, total + 1))) return RUN_FAILED;
	all.kind = K_ALLREDUCE;
	all.counts = NULL;
	all.count = total / b->size;
	TRY(leader_allreduce(e, &all, total));
	size_t own = block_bytes(b, e->hosts->me);
	if (own) memcpy(out, (char *)all.recv + block_offset(b, e->hosts->me), own);
	return RUN_OK;
}

int hosts_reducescatter(struct engine *e, const struct call *c) {
	struct blocks b = blocks_of(c);
	struct hosts *h = e->hosts;
	size_t total = block_offset(&b, h->n);
	char *out = c->send == c->recv ? (char *)c->recv + block_offset(&b, h->me) : c->recv;
	if (h->shared && total <= RAIL_BYTES) return whole_reducescatter(e, c, &b, total, out);
	return block_reducescatter(e, c, &b, out);
}
