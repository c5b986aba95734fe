#define _GNU_SOURCE
#include "hosts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "net.h"

// --- the group ---

static void *zeroed(int n, size_t size) { return calloc((size_t)n, size); }

static int reserve(struct hosts *h, int locals) {
	h->host_of = zeroed(h->n, sizeof *h->host_of);
	h->index_of = zeroed(h->n, sizeof *h->index_of);
	h->first = zeroed(h->count + 1, sizeof *h->first);
	h->members = zeroed(h->n, sizeof *h->members);
	h->fds = zeroed(h->n, sizeof *h->fds);
	h->gone = zeroed(h->n, sizeof *h->gone);
	h->flows = zeroed(2 * h->n, sizeof *h->flows);
	h->polls = zeroed(2 * h->n, sizeof *h->polls);
	h->held = zeroed(h->n, sizeof *h->held);
	h->counts = zeroed(locals, sizeof *h->counts);
	return h->host_of && h->index_of && h->first && h->members && h->fds && h->gone && h->flows && h->polls && h->held && h->counts;
}

static void place(struct hosts *h, const int *host_of, const int *fds) {
	int next = 0;
	h->rails = h->n;
	for (int host = 0; host < h->count; host++) {
		h->first[host] = next;
		for (int rank = 0; rank < h->n; rank++) {
			if (host_of[rank] != host) continue;
			h->host_of[rank] = host;
			h->index_of[rank] = next - h->first[host];
			h->fds[rank] = fds[rank];
			h->members[next++] = rank;
		}
		h->first[host + 1] = next;
		if (host_size(h, host) < h->rails) h->rails = host_size(h, host);
		if (host_size(h, host) > 1) h->shared = 1;
	}
}

int gorun_engine_spread(struct engine *e, int n, int me, const int *host_of, const int *fds, uint64_t first_call) {
	struct hosts *h = calloc(1, sizeof *h);
	if (!h) return -1;
	h->n = n;
	h->me = me;
	h->home = host_of[me];
	for (int i = 0; i < n; i++)
		if (host_of[i] >= h->count) h->count = host_of[i] + 1;
	if (!reserve(h, e->n)) {
		hosts_free(h);
		return -1;
	}
	place(h, host_of, fds);
	h->sequence = first_call;
	e->hosts = h;
	return 0;
}

void hosts_free(struct hosts *h) {
	if (!h) return;
	for (int i = 0; i < h->n && h->members; i++)
		if (h->host_of[i] != h->home && h->fds[i] >= 0) close(h->fds[i]);
	void *all[] = {h->host_of, h->index_of, h->first, h->members, h->fds, (void *)h->gone, h->flows, h->polls, h->held, h->counts};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
	for (int i = 0; i < BUFFERS; i++) free(h->buffers[i].data);
	free(h);
}

char *hosts_buffer(struct engine *e, int number, size_t bytes) {
	struct buffer *b = &e->hosts->buffers[number];
	if (b->size >= bytes && b->data) return b->data;
	free(b->data);
	size_t size = (bytes + 4096) / 4096 * 4096;
	*b = (struct buffer){aligned_alloc(64, size), size};
	if (!b->data) {
		b->size = 0;
		fail_with(e, "no memory for what comes from other hosts");
	}
	return b->data;
}

// --- calls as a whole ---

uint64_t what_of(const struct announcement *a) {
	return a->kind | (uint64_t)a->dtype << 8 | (uint64_t)a->op << 16 | (uint64_t)a->root << 32;
}

struct announcement announcement_in(uint64_t what, uint64_t count) {
	return (struct announcement){.kind = (uint8_t)what, .dtype = (uint8_t)(what >> 8), .op = (uint8_t)(what >> 16),
	                             .root = (uint32_t)(what >> 32), .count = count};
}

static void write_whole(struct whole_call *w, uint64_t sequence, uint64_t what, uint64_t count) {
	atomic_store_explicit(&w->sequence, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&w->what, what, memory_order_relaxed);
	atomic_store_explicit(&w->count, count, memory_order_relaxed);
	atomic_store_explicit(&w->sequence, sequence, memory_order_release);
}

// whole_begin notes the call where the host's other ranks see it.
static void whole_begin(struct engine *e, const struct call *c) {
	struct hosts *h = e->hosts;
	struct area *mine = area_of(e, e->me);
	h->announced = (struct announcement){.kind = (uint8_t)c->kind, .dtype = (uint8_t)c->dtype, .op = (uint8_t)c->op,
	                                     .root = (uint32_t)c->root, .count = agreed_count(c, h->n)};
	uint64_t what = what_of(&h->announced), count = h->announced.count;
	if (!is_message(c->kind)) {
		h->sequence++;
		write_whole(&mine->wholes[h->sequence % WHOLE_CALLS], h->sequence, what, count);
	}
	write_whole(&mine->present, h->sequence, what, count);
}

static void whole_end(struct engine *e) {
	atomic_store_explicit(&area_of(e, e->me)->present.what, 0, memory_order_release);
}

int whole_differs(struct engine *e, int rank, struct announcement *theirs) {
	if (!e->hosts || is_message(e->hosts->announced.kind)) return 0;
	uint64_t sequence = e->hosts->sequence;
	struct whole_call *w = &area_of(e, rank)->wholes[sequence % WHOLE_CALLS];
	if (atomic_load_explicit(&w->sequence, memory_order_acquire) != sequence) return 0;
	uint64_t what = atomic_load_explicit(&w->what, memory_order_relaxed), count = atomic_load_explicit(&w->count, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&w->sequence, memory_order_relaxed) != sequence) return 0;
	*theirs = announcement_in(what, count);
	return what != what_of(&e->hosts->announced) || count != e->hosts->announced.count;
}

// --- who is late ---

int hosts_late(struct engine *e, int rank, uint64_t after_ns) {
	e->waited_for = rank;
	e->waited_ns = after_ns;
	return RUN_LATE;
}

void gorun_engine_disagree(struct engine *e, int rank, uint64_t what, uint64_t count) {
	struct announcement theirs = announcement_in(what, count);
	fail_between(e, rank, &e->hosts->announced, &theirs);
}

int gorun_engine_waited_for(const struct engine *e) { return e->waited_for; }

void gorun_engine_far_gone(struct engine *e, int rank, int how) {
	int here = 0;
	atomic_compare_exchange_strong(&e->hosts->gone[rank], &here, how);
}

void gorun_engine_where(struct engine *e, int rank, struct whereabouts *w) {
	struct area *a = area_of(e, rank);
	uint64_t waits = atomic_load(&a->waits.value) & ~((uint64_t)1 << 63);
	w->sequence = atomic_load(&a->present.sequence);
	for (int i = 0; i < 1000 && !w->sequence; i++) w->sequence = atomic_load(&a->present.sequence); // 0 while it is written
	w->what = atomic_load(&a->present.what);
	w->count = atomic_load(&a->present.count);
	w->waits_for = -1;
	if (waits) w->waits_for = (waits & 255) == CH_NET ? (int64_t)(waits >> 8) - 1 : group_rank(e, (int)(waits >> 8) - 1);
}

// --- which way ---

static int run_whole(struct engine *e, const struct call *c) {
	switch (c->kind) {
	case K_BARRIER: return hosts_barrier(e);
	case K_ALLREDUCE: return hosts_allreduce(e, c);
	case K_REDUCE: return hosts_reduce(e, c);
	case K_REDUCESCATTER:
	case K_REDUCESCATTERV: return hosts_reducescatter(e, c);
	case K_BROADCAST: return hosts_broadcast(e, c);
	case K_ALLGATHER:
	case K_ALLGATHERV: return hosts_allgather(e, c);
	case K_GATHER:
	case K_GATHERV: return hosts_gather(e, c);
	case K_SCATTER:
	case K_SCATTERV: return hosts_scatter(e, c);
	case K_ALLTOALL:
	case K_ALLTOALLV: return hosts_alltoall(e, c);
	default: return hosts_message(e, c);
	}
}

// In calls with a root some wait for nobody: what they send lies in the kernel's buffers, which take millions of small messages, and a rank that is
// stuck would go unnoticed for as long. After so many of these calls all wait for all, as the lines of a host's ranks have them do, too.
enum { LOOSE_CALLS = 32 };

static int rooted(int kind) {
	return kind == K_REDUCE || kind == K_BROADCAST || kind == K_GATHER || kind == K_GATHERV || kind == K_SCATTER || kind == K_SCATTERV;
}

static int keep_together(struct engine *e, int kind) {
	if (!rooted(kind) || ++e->hosts->loose < LOOSE_CALLS) return RUN_OK;
	e->hosts->loose = 0;
	return hosts_barrier(e);
}

int run_over_hosts(struct engine *e, const struct call *c) {
	whole_begin(e, c);
	int status = run_whole(e, c);
	if (status == RUN_OK) status = keep_together(e, c->kind);
	if (status == RUN_OK) whole_end(e);
	return status;
}
