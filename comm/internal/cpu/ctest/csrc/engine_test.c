// Ranks as threads of one process, so that ThreadSanitizer and AddressSanitizer see everything that they share: random calls of every kind, whose
// results follow from a formula.
//
//   engine_test RANKS CALLS SEED FIRST_CALL MAX_BYTES [HOSTS]
//
// HOSTS has a digit for each rank, its host: "0011" are four ranks on two, with pairs of sockets between them.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "../../engine.h"
#include "../../kernels.h"

enum { MOST_RANKS = 16, GUARD = 64 };

static int ranks, calls, most;
static uint64_t seed, first_call;
static void *segments[MOST_RANKS], *region;
static int host_of[MOST_RANKS], sockets[MOST_RANKS][MOST_RANKS], hosts = 1;
static size_t part_size;

// crowded: two ranks also run as if they had a CPU each. More would spin for the few CPUs of a test machine.
static int crowded(void) { return ranks > 2 || seed % 2 == 0; }

static uint64_t mix(uint64_t x) {
	x ^= x >> 33;
	x *= 0xFF51AFD7ED558CCDu;
	x ^= x >> 33;
	x *= 0xC4CEB9FE1A85EC53u;
	return x ^ x >> 33;
}

// value is what rank has at this index in this call: small, so that float32 sums of them are exact.
static int32_t value(uint64_t call, int rank, size_t index) { return (int32_t)(mix(call * 1000003 + (uint64_t)rank * 7919 + index) % 1001) - 500; }

struct random {
	uint64_t state;
};

static uint64_t draw(struct random *r, uint64_t below) {
	r->state = mix(r->state + 0x9E3779B97F4A7C15u);
	return r->state % below;
}

static void put(char *buffer, size_t i, int floating, int32_t v) {
	float f = (float)v;
	memcpy(buffer + 4 * i, floating ? (void *)&f : (void *)&v, 4);
}

static int32_t get(const char *buffer, size_t i, int floating) {
	float f;
	int32_t v;
	memcpy(&f, buffer + 4 * i, 4);
	memcpy(&v, buffer + 4 * i, 4);
	return floating ? (int32_t)f : v;
}

static int32_t reduced(uint64_t call, int op, size_t index) {
	int32_t result = value(call, 0, index);
	for (int i = 1; i < ranks; i++) {
		int32_t v = value(call, i, index);
		if (op == OP_SUM) result += v;
		else if (op == OP_MAX ? v > result : v < result) result = v;
	}
	return result;
}

// One drawn call, the same on every rank.
struct drawn {
	int kind, op, root, floating, in_place, offset, shared;
	size_t count;
	int64_t counts[MOST_RANKS], matrix[MOST_RANKS][MOST_RANKS];
};

static size_t draw_count(struct random *r) {
	static const size_t corners[] = {0, 1, 2, 3, 7, 13, 14, 15, 16, 17, 63, 64, 65, 1023, 1024, 1025};
	if (draw(r, 2)) return corners[draw(r, sizeof corners / sizeof *corners)];
	return draw(r, draw(r, 4) ? (uint64_t)most / 64 + 2 : (uint64_t)most / 4 + 1);
}

static struct drawn draw_call(struct random *r) {
	static const int ops[] = {OP_SUM, OP_MAX, OP_MIN};
	struct drawn d = {.kind = 1 + (int)draw(r, KINDS - 1), .op = ops[draw(r, 3)], .root = (int)draw(r, (uint64_t)ranks)};
	d.floating = (int)draw(r, 2);
	d.in_place = (int)draw(r, 2);
	d.offset = draw(r, 4) ? 0 : 4;
	d.shared = (int)draw(r, 2);
	d.count = draw_count(r);
	for (int i = 0; i < ranks; i++) d.counts[i] = (int64_t)draw_count(r);
	for (int i = 0; i < ranks; i++)
		for (int k = 0; k < ranks; k++) d.matrix[i][k] = (int64_t)draw_count(r) / ranks;
	if (d.kind == K_SEND || d.kind == K_RECV) d.kind = K_SENDRECV; // drawn below as a pair
	return d;
}

static void check(int ok, int rank, uint64_t call, const struct drawn *d, size_t index, int32_t got, int32_t want) {
	if (ok && got == want) return;
	fprintf(stderr, "seed %llu ranks %d: rank %d, call %llu (kind %d, count %zu, root %d, in place %d, shared %d): [%zu] is %d, not %d\n",
	        (unsigned long long)seed, ranks, rank, (unsigned long long)call, d->kind, d->count, d->root, d->in_place, d->shared, index, got, want);
	abort();
}

static size_t sum_before(const int64_t *counts, int i) {
	size_t sum = 0;
	for (int k = 0; k < i; k++) sum += (size_t)counts[k];
	return sum;
}

// A rank's buffers and the call that it is about to make.
struct rank_state {
	struct engine *engine;
	int me;
	char *send, *recv;
};

static void fill(char *buffer, uint64_t call, int rank, size_t from, size_t count, size_t index, int floating) {
	for (size_t i = 0; i < count; i++) put(buffer, from + i, floating, value(call, rank, index + i));
}

static void expect(struct rank_state *s, uint64_t call, const struct drawn *d, const char *at, size_t from, size_t count, int rank, size_t index) {
	for (size_t i = 0; i < count; i++) check(1, s->me, call, d, from + i, get(at, from + i, d->floating), value(call, rank, index + i));
}

static void expect_reduced(struct rank_state *s, uint64_t call, const struct drawn *d, const char *at, size_t count, size_t index) {
	for (size_t i = 0; i < count; i++) check(1, s->me, call, d, i, get(at, i, d->floating), reduced(call, d->op, index + i));
}

static void must(struct rank_state *s, const struct call *c) {
	int status = gorun_engine_run(s->engine, c);
	if (status == RUN_OK) return;
	const struct failure *f = gorun_engine_failure(s->engine);
	fprintf(stderr, "seed %llu ranks %d: rank %d: kind %d ended with %d (failure %d, rank %u)\n", (unsigned long long)seed, ranks, s->me, c->kind,
	        status, f ? (int)f->kind : 0, f ? f->rank : 0);
	abort();
}

static void one(struct rank_state *s, uint64_t call, const struct drawn *d) {
	int me = s->me, n = ranks, f = d->floating;
	size_t count = d->count, all = 0;
	char *send = s->send + d->offset, *recv = s->recv + d->offset;
	struct call c = {.kind = d->kind, .dtype = f ? DT_FLOAT32 : DT_INT32, .count = count, .send = send, .recv = recv};
	int rooted = d->kind == K_REDUCE || d->kind == K_BROADCAST || d->kind == K_GATHER || d->kind == K_GATHERV || d->kind == K_SCATTER || d->kind == K_SCATTERV;
	int reduces = d->kind == K_ALLREDUCE || d->kind == K_REDUCE || d->kind == K_REDUCESCATTER || d->kind == K_REDUCESCATTERV;
	if (rooted) c.root = d->root;
	if (reduces) c.op = d->op;
	switch (d->kind) {
	case K_BARRIER: must(s, &(struct call){.kind = K_BARRIER}); return;
	case K_ALLREDUCE:
	case K_REDUCE:
		if (d->in_place) c.recv = send;
		fill(send, call, me, 0, count, 0, f);
		must(s, &c);
		if (d->kind == K_ALLREDUCE || me == d->root) expect_reduced(s, call, d, c.recv, count, 0);
		return;
	case K_BROADCAST:
		if (me == d->root) fill(recv, call, me, 0, count, 0, f);
		else memset(recv, 0x55, 4 * count);
		c.send = recv;
		must(s, &c);
		expect(s, call, d, recv, 0, count, d->root, 0);
		return;
	case K_ALLGATHER:
	case K_GATHER:
		if (d->in_place && (d->kind == K_ALLGATHER || me == d->root)) {
			c.send = recv;
			fill(recv, call, me, (size_t)me * count, count, 0, f);
		} else {
			fill(send, call, me, 0, count, 0, f);
		}
		must(s, &c);
		for (int i = 0; i < n && (d->kind == K_ALLGATHER || me == d->root); i++) expect(s, call, d, recv, (size_t)i * count, count, i, 0);
		return;
	case K_ALLGATHERV:
	case K_GATHERV:
		c.counts = d->counts;
		c.count = (size_t)d->counts[me];
		all = sum_before(d->counts, me);
		if (d->in_place && (d->kind == K_ALLGATHERV || me == d->root)) {
			c.send = recv;
			fill(recv, call, me, all, c.count, 0, f);
		} else {
			fill(send, call, me, 0, c.count, 0, f);
		}
		if (d->kind == K_GATHERV && me != d->root) c.counts = NULL;
		must(s, &c);
		for (int i = 0; i < n && (d->kind == K_ALLGATHERV || me == d->root); i++)
			expect(s, call, d, recv, sum_before(d->counts, i), (size_t)d->counts[i], i, 0);
		return;
	case K_REDUCESCATTER:
	case K_REDUCESCATTERV: {
		int v = d->kind == K_REDUCESCATTERV;
		size_t own = v ? (size_t)d->counts[me] : count, before = v ? sum_before(d->counts, me) : (size_t)me * count;
		all = v ? sum_before(d->counts, n) : (size_t)n * count;
		c.counts = v ? d->counts : NULL;
		c.count = own;
		if (d->in_place) c.recv = send;
		fill(send, call, me, 0, all, 0, f);
		must(s, &c);
		expect_reduced(s, call, d, d->in_place ? send + 4 * before : recv, own, before);
		return;
	}
	case K_SCATTER:
	case K_SCATTERV: {
		int v = d->kind == K_SCATTERV;
		size_t own = v ? (size_t)d->counts[me] : count, before = v ? sum_before(d->counts, me) : (size_t)me * count;
		all = v ? sum_before(d->counts, n) : (size_t)n * count;
		c.counts = v && me == d->root ? d->counts : NULL;
		c.count = own;
		if (me == d->root) fill(send, call, me, 0, all, 0, f);
		if (me == d->root && d->in_place) c.recv = send;
		must(s, &c);
		expect(s, call, d, me == d->root && d->in_place ? send + 4 * before : recv, 0, own, d->root, before);
		return;
	}
	case K_ALLTOALL:
		fill(send, call, me, 0, (size_t)n * count, 0, f);
		if (d->in_place) c.recv = send;
		must(s, &c);
		for (int i = 0; i < n; i++) expect(s, call, d, c.recv, (size_t)i * count, count, i, (size_t)me * count);
		return;
	case K_ALLTOALLV: {
		int64_t in[MOST_RANKS];
		for (int i = 0; i < n; i++) in[i] = d->matrix[i][me];
		c.send_counts = d->matrix[me];
		c.recv_counts = in;
		fill(send, call, me, 0, sum_before(d->matrix[me], n), 0, f);
		must(s, &c);
		for (int i = 0; i < n; i++) expect(s, call, d, recv, sum_before(in, i), (size_t)in[i], i, sum_before(d->matrix[i], me));
		return;
	}
	default: { // around the ring, and then from one to one other
		int to = (me + 1) % n, from = (me + n - 1) % n;
		c.kind = K_SENDRECV;
		c.root = to;
		c.from = from;
		c.count = (size_t)d->counts[me];
		c.recv_count = (size_t)d->counts[from];
		fill(send, call, me, 0, c.count, 0, f);
		must(s, &c);
		expect(s, call, d, recv, 0, c.recv_count, from, 0);
		if (n == 1) return;
		int source = d->root, sink = (d->root + 1 + (int)(call % (uint64_t)(n - 1))) % n;
		struct call p2p = {.dtype = c.dtype, .count = count, .send = send, .recv = recv};
		if (me == source) {
			p2p.kind = K_SEND;
			p2p.root = sink;
			fill(send, call, me, 0, count, 0, f);
			must(s, &p2p);
		} else if (me == sink) {
			p2p.kind = K_RECV;
			p2p.root = source;
			must(s, &p2p);
			expect(s, call, d, recv, 0, count, source, 0);
		}
	}
	}
}

// locals_of counts the ranks below that are on the host.
static int locals_of(int host, int below) {
	int count = 0;
	for (int i = 0; i < below; i++) count += host_of[i] == host;
	return count;
}

// connect_hosts makes a connection between all ranks of different hosts.
static int connect_hosts(const char *digits) {
	if (strlen(digits) != (size_t)ranks) return -1;
	for (int i = 0; i < ranks; i++) {
		host_of[i] = digits[i] - '0';
		if (host_of[i] < 0 || host_of[i] > hosts) return -1;
		if (host_of[i] == hosts) hosts++;
	}
	for (int i = 0; i < ranks; i++)
		for (int k = 0; k < i; k++) {
			int pair[2] = {-1, -1};
			if (host_of[i] != host_of[k] && socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return -1;
			sockets[i][k] = pair[0];
			sockets[k][i] = pair[1];
		}
	return 0;
}

static void *rank_main(void *argument) {
	int me = (int)(intptr_t)argument;
	size_t room = (size_t)most * (size_t)ranks + GUARD;
	struct engine_options options = {.ranks = locals_of(host_of[me], ranks), .rank = locals_of(host_of[me], me), .crowded = crowded()};
	options.timeout_ns = 20000000000u;
	options.first_call = first_call;
	options.past = (int)(seed / 2 % 2);
	struct rank_state s = {.engine = gorun_engine_new(segments[host_of[me]], &options), .me = me};
	char *own_send = malloc(room), *own_recv = malloc(room), *shared;
	struct random r = {seed};
	if (!s.engine || !own_send || !own_recv) abort();
	if (hosts > 1 && gorun_engine_spread(s.engine, ranks, me, host_of, sockets[me], first_call)) abort();
	char *host_region = region;
	for (int h = 0; h < host_of[me]; h++) host_region += part_size * (size_t)locals_of(h, ranks);
	shared = host_region + part_size * (size_t)options.rank;
	for (int i = 0; i < calls; i++) {
		struct drawn d = draw_call(&r);
		if (i == calls / 2) gorun_engine_region(s.engine, host_region, part_size);
		s.send = i >= calls / 2 && d.shared ? shared : own_send;
		s.recv = i >= calls / 2 && d.shared ? shared + part_size / 2 : own_recv;
		one(&s, (uint64_t)i, &d);
	}
	must(&s, &(struct call){.kind = K_BARRIER});
	gorun_engine_free(s.engine);
	free(own_send);
	free(own_recv);
	return NULL;
}

int main(int argc, char **argv) {
	if (argc != 6 && argc != 7) return 2;
	ranks = atoi(argv[1]);
	calls = atoi(argv[2]);
	seed = strtoull(argv[3], NULL, 10);
	first_call = strtoull(argv[4], NULL, 10);
	most = atoi(argv[5]);
	if (ranks < 1 || ranks > MOST_RANKS) return 2;
	if (argc == 7 && connect_hosts(argv[6])) return 2;
	part_size = ((size_t)most * (size_t)ranks + GUARD + 4095) / 4096 * 4096 * 2;
	for (int h = 0; h < hosts; h++) {
		int locals = locals_of(h, ranks);
		segments[h] = mmap(NULL, gorun_layout_for(locals, crowded()).total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (segments[h] == MAP_FAILED) return 2;
		if (first_call) gorun_engine_prepare(segments[h], locals, crowded(), first_call);
	}
	region = mmap(NULL, part_size * (size_t)ranks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (region == MAP_FAILED) return 2;
	pthread_t threads[MOST_RANKS];
	for (int i = 1; i < ranks; i++)
		if (pthread_create(&threads[i], NULL, rank_main, (void *)(intptr_t)i)) return 2;
	rank_main((void *)0);
	for (int i = 1; i < ranks; i++) pthread_join(threads[i], NULL);
	printf("%d ranks, %d calls, seed %llu: ok\n", ranks, calls, (unsigned long long)seed);
	return 0;
}
