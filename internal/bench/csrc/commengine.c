/*
 * commengine RANKS BYTES: comm's engine for CPUs called from C, without Go, as internal/bench's measure of what Go adds. It forks the ranks
 * itself and gives each one CPU.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "commloop.h"

#include "../../../comm/internal/cpu/engine.h"
#include "../../../comm/internal/cpu/kernels.h"

static struct engine *engine;

static void run(struct call c) {
	c.dtype = DT_FLOAT32;
	c.op = OP_SUM;
	if (gorun_engine_run(engine, &c) != RUN_OK)
		_exit(1);
}

static void meet(const struct loop *l) {
	(void)l;
	run((struct call){.kind = K_BARRIER});
}

/* The first and the last rank send the vector there and back. */
static void ping_pong(const struct loop *l, const struct task *t) {
	const int last = l->ranks - 1;
	struct call out = {.kind = K_SEND, .root = last - l->rank, .count = t->count, .send = l->send[0]};
	struct call in = {.kind = K_RECV, .root = last - l->rank, .count = t->count, .recv = l->recv[0]};
	if (l->rank == 0)
		run(out);
	if (l->rank == 0 || l->rank == last)
		run(in);
	if (l->rank == last)
		run(out);
}

static void call(const struct loop *l, const struct task *t) {
	static const int kinds[OPERATIONS] = {
		K_ALLREDUCE, K_REDUCE, K_BROADCAST, K_ALLGATHER, K_REDUCESCATTER, K_ALLTOALL, K_SENDRECV, K_BARRIER, K_SEND,
	};
	if (t->operation == PINGPONG) {
		ping_pong(l, t);
		return;
	}
	struct call c = {.kind = kinds[t->operation], .count = t->count, .recv_count = t->count, .send = l->send[0], .recv = l->recv[0]};
	if (t->operation == BROADCAST)
		c.recv = l->send[0];
	if (t->operation == SENDRECV) {
		c.root = (l->rank + 1) % l->ranks;
		c.from = (l->rank + l->ranks - 1) % l->ranks;
	}
	run(c);
}

static void be_rank(struct loop *l, void *segment, size_t bytes, int crowded) {
	cpu_set_t cpus, own;
	sched_getaffinity(0, sizeof cpus, &cpus);
	CPU_ZERO(&own);
	for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &cpus) && seen++ == l->rank % CPU_COUNT(&cpus))
			CPU_SET(cpu, &own);
	sched_setaffinity(0, sizeof own, &own);
	struct engine_options options = {.ranks = l->ranks, .rank = l->rank, .crowded = crowded, .expedited = gorun_engine_register() == 0, .timeout_ns = 60000000000u};
	engine = gorun_engine_new(segment, &options);
	if (!engine)
		give_up("gorun_engine_new");
	l->send[0] = private_floats(bytes);
	l->recv[0] = private_floats(bytes);
	meet(l);
	open_control(l);
	serve_tasks(l);
}

int main(int argc, char **argv) {
	if (argc != 3)
		return 2;
	struct loop l = {.call = call, .meet = meet, .ranks = atoi(argv[1])};
	cpu_set_t cpus;
	sched_getaffinity(0, sizeof cpus, &cpus);
	int crowded = l.ranks > CPU_COUNT(&cpus);
	size_t size = gorun_layout_for(l.ranks, crowded).total;
	void *segment = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (segment == MAP_FAILED)
		give_up("mmap");
	for (l.rank = 0; l.rank < l.ranks; l.rank++) {
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			be_rank(&l, segment, (size_t)atoll(argv[2]), crowded);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
