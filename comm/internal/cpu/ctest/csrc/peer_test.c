// Ranks of different hosts, as threads of one process, between which everything that goes over a connection passes
// somebody who changes, drops and repeats bytes. Calls may fail or give wrong results; the sanitizers say whether
// memory is touched that is not the call's.
//
//   peer_test ROUNDS SEED
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../engine.h"
#include "../../kernels.h"

enum { RANKS = 3, CALLS = 20, MOST = 40000, PATIENCE_NS = 100 * 1000 * 1000 };

static const int host_of[RANKS] = {0, 1, 2};
static int ends[RANKS][RANKS]; // of a rank, to the one between it and another
static uint64_t round_seed;
static int failed;

static uint64_t mix(uint64_t x) {
	x = (x ^ x >> 33) * 0xFF51AFD7ED558CCDu;
	x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53u;
	return x ^ x >> 33;
}

static uint64_t draw(uint64_t *state, uint64_t below) {
	*state = mix(*state + 0x9E3779B97F4A7C15u);
	return *state % below;
}

struct pipe {
	int from, to;
	uint64_t random;
};

static int put(int fd, const char *data, size_t size) {
	while (size) {
		ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR) continue;
		if (n <= 0) return -1;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

// change spoils some of what passes, most of all where headers are: at the beginning of a piece.
static size_t change(struct pipe *p, char *data, size_t size) {
	if (draw(&p->random, 8)) return size;
	size_t at = draw(&p->random, draw(&p->random, 2) && size > 40 ? 40 : size);
	switch (draw(&p->random, 4)) {
	case 0: data[at] ^= (char)(1u << draw(&p->random, 8)); break;
	case 1: memset(data + at, 0xff, size - at < 8 ? size - at : 8); break;
	case 2: return at; // the rest is lost
	default: data[at] = (char)draw(&p->random, 256);
	}
	return size;
}

static void *pass(void *argument) {
	struct pipe *p = argument;
	char data[8192];
	for (;;) {
		ssize_t n = recv(p->from, data, 1 + draw(&p->random, sizeof data), 0);
		if (n < 0 && errno == EINTR) continue;
		if (n <= 0) break;
		size_t size = change(p, data, (size_t)n);
		if (put(p->to, data, size)) break;
		if (!draw(&p->random, 64) && put(p->to, data, size)) break; // once more
	}
	shutdown(p->to, SHUT_RDWR);
	shutdown(p->from, SHUT_RDWR);
	return NULL;
}

static const int kinds[] = {K_BARRIER, K_ALLREDUCE, K_REDUCE, K_BROADCAST, K_ALLGATHER, K_REDUCESCATTER, K_GATHER, K_SCATTER, K_ALLTOALL, K_SENDRECV};

// one makes a call that all ranks draw alike, on buffers of exactly its size.
static int one(struct engine *e, int me, uint64_t *random) {
	struct call c = {.kind = kinds[draw(random, sizeof kinds / sizeof *kinds)], .dtype = 2, .op = OP_SUM};
	c.root = (int)draw(random, RANKS);
	c.count = draw(random, draw(random, 2) ? 100 : MOST);
	size_t out = c.count, in = c.count;
	if (c.kind == K_REDUCESCATTER || c.kind == K_SCATTER || c.kind == K_ALLTOALL) out *= RANKS;
	if (c.kind == K_ALLGATHER || c.kind == K_GATHER || c.kind == K_ALLTOALL) in *= RANKS;
	if (c.kind == K_SENDRECV) {
		c.root = (me + 1) % RANKS;
		c.from = (me + RANKS - 1) % RANKS;
		c.recv_count = c.count;
	}
	char *sent = calloc(out + 1, 4), *received = calloc(in + 1, 4);
	if (!sent || !received) abort();
	c.send = c.kind == K_BROADCAST ? received : sent;
	c.recv = received;
	int status = gorun_engine_run(e, &c);
	free(sent);
	free(received);
	return status;
}

static void *rank_main(void *argument) {
	int me = (int)(intptr_t)argument;
	size_t size = gorun_layout_for(1, 1).total;
	void *segment = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (segment == MAP_FAILED) abort();
	struct engine_options options = {.ranks = 1, .crowded = 1, .timeout_ns = PATIENCE_NS};
	struct engine *e = gorun_engine_new(segment, &options);
	if (!e || gorun_engine_spread(e, RANKS, me, host_of, ends[me], 0)) abort();
	uint64_t random = round_seed;
	int status = RUN_OK;
	for (int i = 0; i < CALLS && status == RUN_OK; i++) status = one(e, me, &random);
	if (status != RUN_OK) __atomic_add_fetch(&failed, 1, __ATOMIC_RELAXED);
	gorun_engine_free(e);
	munmap(segment, size);
	return NULL;
}

static int one_round(uint64_t seed) {
	pthread_t rank[RANKS], passer[RANKS * RANKS];
	struct pipe pipes[RANKS * RANKS];
	int n = 0, inner[RANKS * RANKS];
	round_seed = seed;
	for (int i = 0; i < RANKS; i++)
		for (int k = 0; k < i; k++) {
			int a[2], b[2];
			if (socketpair(AF_UNIX, SOCK_STREAM, 0, a) || socketpair(AF_UNIX, SOCK_STREAM, 0, b)) return -1;
			ends[i][k] = a[0];
			ends[k][i] = b[0];
			pipes[n] = (struct pipe){a[1], b[1], mix(seed + (uint64_t)n)};
			inner[n++] = a[1];
			pipes[n] = (struct pipe){b[1], a[1], mix(seed + (uint64_t)n)};
			inner[n++] = b[1];
		}
	for (int i = 0; i < n; i++)
		if (pthread_create(&passer[i], NULL, pass, &pipes[i])) return -1;
	for (int i = 0; i < RANKS; i++)
		if (pthread_create(&rank[i], NULL, rank_main, (void *)(intptr_t)i)) return -1;
	for (int i = 0; i < RANKS; i++) pthread_join(rank[i], NULL);
	for (int i = 0; i < n; i++) pthread_join(passer[i], NULL);
	for (int i = 0; i < n; i++) close(inner[i]);
	return 0;
}

int main(int argc, char **argv) {
	if (argc != 3) return 2;
	int rounds = atoi(argv[1]);
	uint64_t seed = strtoull(argv[2], NULL, 10);
	for (int i = 0; i < rounds; i++)
		if (one_round(mix(seed + (uint64_t)i))) return 2;
	printf("%d rounds, %d of %d ranks failed\n", rounds, failed, rounds * RANKS);
	return failed ? 0 : 1; // else nothing was tried
}
