#include "do.h"

static struct call call_of(uint32_t what, int root, size_t count, uintptr_t send, uintptr_t recv) {
	return (struct call){.kind = (int)(what & 255), .dtype = (int)(what >> 8 & 255), .op = (int)(what >> 16 & 255),
	                     .root = root, .count = count, .send = (const void *)send, .recv = (void *)recv};
}

int gorun_engine_do(uintptr_t engine, uint32_t what, int root, size_t count, uintptr_t send, uintptr_t recv) {
	struct call c = call_of(what, root, count, send, recv);
	return gorun_engine_run((struct engine *)engine, &c);
}

int gorun_engine_do_blocks(uintptr_t engine, uint32_t what, int root, int from, size_t count, size_t recv_count, uintptr_t send, uintptr_t recv,
                     const int64_t *counts, const int64_t *send_counts, const int64_t *recv_counts) {
	struct call c = call_of(what, root, count, send, recv);
	c.from = from;
	c.recv_count = recv_count;
	c.counts = counts;
	c.send_counts = send_counts;
	c.recv_counts = recv_counts;
	return gorun_engine_run((struct engine *)engine, &c);
}

int gorun_engine_do_agree(struct engine *e, uint32_t what, int root, size_t count, const int64_t *counts) {
	struct call c = call_of(what, root, count, 0, 0);
	c.counts = counts;
	return gorun_engine_agree(e, &c);
}
