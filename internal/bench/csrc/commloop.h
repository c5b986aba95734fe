/*
 * The measured loop of internal/bench, for programs in C. The same loop is in rank.go and gloo.py: change all three.
 *
 * A rank connects to the unix socket that COMMBENCH_SOCKET names and says "hello RANK PID NANOSECONDS\n". For each line
 * "OPERATION BYTES WARM CALLS SHARED\n" it makes WARM calls, waits for all ranks, makes CALLS timed calls, each after writing a float into every
 * cache line of its input, then does the writing alone as often, and answers
 * "NANOSECONDS WRITING_NANOSECONDS ALLOCATIONS FIRST\n": FIRST is the first float of its result. It ends when the socket does.
 */
#ifndef GORUN_BENCH_COMMLOOP_H
#define GORUN_BENCH_COMMLOOP_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum operation { ALLREDUCE, REDUCE, BROADCAST, ALLGATHER, REDUCESCATTER, ALLTOALL, SENDRECV, BARRIER, PINGPONG, OPERATIONS };

static const char *const operation_names[OPERATIONS] = {
	"allreduce", "reduce", "broadcast", "allgather", "reducescatter", "alltoall", "sendrecv", "barrier", "pingpong",
};

/* One task: count is MPI's, the number of float32 of one block where there is one for each rank. */
struct task {
	enum operation operation;
	int shared; /* the buffers that all ranks map */
	size_t count, input; /* floats; input is how many of send this rank gives */
	long warm, calls;
};

struct loop {
	int rank, ranks;
	float *send[2], *recv[2]; /* private and, where the program has any, shared memory */
	void (*call)(const struct loop *, const struct task *);
	void (*meet)(const struct loop *);
	FILE *control;
};

static uint64_t nanoseconds(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void give_up(const char *what) {
	perror(what);
	exit(1);
}

/* Private memory, every page of it written once. */
static float *private_floats(size_t bytes) {
	float *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		give_up("mmap");
	for (size_t i = 0; i < bytes / sizeof *memory; i++)
		memory[i] = 1;
	return memory;
}

static void open_control(struct loop *l) {
	const char *path = getenv("COMMBENCH_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (!path || strlen(path) >= sizeof address.sun_path)
		give_up("COMMBENCH_SOCKET");
	strcpy(address.sun_path, path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0 || !(l->control = fdopen(fd, "r+")))
		give_up(path);
	setvbuf(l->control, NULL, _IONBF, 0); /* a stream that is read and written in turn */
	if (dprintf(fd, "hello %d %d %llu\n", l->rank, (int)getpid(), (unsigned long long)nanoseconds()) < 0)
		give_up(path);
}

static int has_blocks(enum operation o) { return o == ALLGATHER || o == REDUCESCATTER || o == ALLTOALL; }

static int read_task(struct loop *l, struct task *t) {
	char line[256], name[64];
	size_t bytes;
	if (!fgets(line, sizeof line, l->control))
		return 0;
	if (sscanf(line, "%63s %zu %ld %ld %d", name, &bytes, &t->warm, &t->calls, &t->shared) != 5)
		return 0;
	for (int o = 0; o < OPERATIONS; o++)
		if (strcmp(name, operation_names[o]) == 0)
			t->operation = (enum operation)o;
	t->count = bytes / sizeof(float) / (has_blocks(t->operation) ? (size_t)l->ranks : 1);
	if (t->count == 0)
		t->count = 1;
	t->input = t->count;
	if (t->operation == REDUCESCATTER || t->operation == ALLTOALL)
		t->input *= (size_t)l->ranks;
	return 1;
}

enum { FLOATS_PER_LINE = 16 };

static void write_input(const struct loop *l, const struct task *t, long i) {
	volatile float *send = l->send[t->shared];
	float value = (float)((i & 1023) + l->rank);
	if (t->operation == BARRIER)
		return;
	for (size_t k = 0; k < t->input; k += FLOATS_PER_LINE)
		send[k] = value;
}

static void serve_task(const struct loop *l, const struct task *t) {
	for (long i = 0; i < t->warm; i++) {
		write_input(l, t, i);
		l->call(l, t);
	}
	l->meet(l);
	uint64_t begin = nanoseconds();
	for (long i = 0; i < t->calls; i++) {
		write_input(l, t, i);
		l->call(l, t);
	}
	uint64_t called = nanoseconds();
	float first = (t->operation == BROADCAST ? l->send : l->recv)[t->shared][0];
	uint64_t write_begin = nanoseconds();
	for (long i = 0; i < t->calls; i++)
		write_input(l, t, i);
	uint64_t written = nanoseconds();
	dprintf(fileno(l->control), "%llu %llu 0 %g\n", (unsigned long long)(called - begin), (unsigned long long)(written - write_begin), (double)first);
}

static void serve_tasks(struct loop *l) {
	struct task t = {0};
	while (read_task(l, &t))
		serve_task(l, &t);
}

#endif
