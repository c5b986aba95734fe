#define _GNU_SOURCE
#include "hosts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "team.h"
#include "whole.h"

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
// stuck would go unnoticed for as long. After this number of calls all wait for all, as the lines of a host's ranks have them do, too.
enum { LOOSE_CALLS = 128 };

static int keep_together(struct engine *e, int kind) {
	if (!is_rooted(kind) || ++e->hosts->loose < LOOSE_CALLS) return RUN_OK;
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
