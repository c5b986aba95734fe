#define _GNU_SOURCE
#include "net.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "bell.h"
#include "blocks.h"
#include "failure.h"
#include "wait.h"

// --- memory ---

char *net_buffer(struct engine *e, int number, size_t bytes) {
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

// --- messages ---

// How long a connection that ended waits for the word that says why, and how long a rank that is known to be gone may still have bytes under way.
static const uint64_t GRACE_NS = 300u * 1000 * 1000, REST_NS = 1000u * 1000 * 1000;

static struct flow *flow_new(struct engine *e, int *n, int rank, void *data, size_t bytes) {
	const struct announcement *a = &e->hosts->announced;
	struct flow *f = &e->hosts->flows[(*n)++];
	int message = a->kind == K_SEND || a->kind == K_RECV || a->kind == K_SENDRECV;
	*f = (struct flow){.rank = rank, .data = data, .bytes = bytes};
	f->expected = (struct net_header){.kind = a->kind, .dtype = a->dtype, .op = a->op, .root = a->root, .count = a->count, .bytes = bytes};
	f->expected.sequence = e->hosts->sequence;
	if (message) f->expected = (struct net_header){.kind = K_SEND, .dtype = a->dtype, .count = bytes / dtype_size(a->dtype), .bytes = bytes};
	return f;
}

static int is_small(const struct flow *f) { return f->bytes <= NET_SMALL && !f->window && !f->gate; }

// framed is how many bytes travel with the header in one piece.
static size_t framed(const struct flow *f) { return sizeof f->frame.header + (is_small(f) ? f->bytes : 0); }

static int over(const struct flow *f) { return f->moved == f->bytes && f->head == framed(f); }

struct flow *flow_to(struct engine *e, int *n, int rank, const void *data, size_t bytes) {
	struct flow *f = flow_new(e, n, rank, (void *)data, bytes);
	f->out = 1;
	f->frame.header = f->expected;
	if (bytes && is_small(f)) memcpy(f->frame.small, data, bytes);
	return f;
}

struct flow *flow_from(struct engine *e, int *n, int rank, void *data, size_t bytes) { return flow_new(e, n, rank, data, bytes); }

// allowed is how many bytes behind those that moved may move now, in one piece of memory.
static size_t allowed(const struct flow *f) {
	size_t left = f->bytes - f->moved;
	if (f->out) return f->gate ? smaller(left, *f->gate - f->moved) : left;
	if (!f->window) return left;
	size_t at = f->moved % f->window, room = *f->gate + f->window - f->moved;
	return smaller(left, smaller(room, f->window - at));
}

static char *place_of(const struct flow *f) {
	if (f->window) return f->data + f->moved % f->window;
	return f->data ? f->data + f->moved : NULL;
}

// --- what goes wrong ---

static int net_lost(struct engine *e, int rank) {
	struct hosts *h = e->hosts;
	uint64_t until = now_ns() + GRACE_NS;
	for (;;) {
		int gone = atomic_load(&h->gone[rank]);
		if (atomic_load_explicit(&e->header->failed, memory_order_acquire)) return RUN_FAILED;
		if (atomic_load_explicit(&e->cancelled, memory_order_relaxed)) return RUN_CANCELLED;
		if (gone || now_ns() > until) return fail_gone(e, rank, gone ? gone : 1);
		poll(NULL, 0, 1);
	}
}

static struct announcement announced_in(const struct net_header *x, int to) {
	struct announcement a = {.kind = x->kind, .dtype = x->dtype, .op = x->op, .root = x->root, .count = x->count};
	if (x->kind == K_SEND) a.root = (uint32_t)to;
	return a;
}

// net_differs compares what came with what was expected. Where the calls agree and the lengths don't, it is reported as a mismatch of messages.
static int net_differs(struct engine *e, const struct flow *f) {
	const struct net_header *theirs = &f->frame.header, *ours = &f->expected;
	struct announcement other = announced_in(theirs, e->hosts->me), own = e->hosts->announced;
	if (ours->kind == K_SEND) own.root = (uint32_t)f->rank, own.kind = K_RECV, own.count = ours->count;
	if (ours->kind == theirs->kind && ours->root == theirs->root && ours->count == theirs->count && ours->bytes != theirs->bytes) {
		size_t size = dtype_size(ours->dtype);
		own = (struct announcement){.kind = K_RECV, .dtype = ours->dtype, .root = (uint32_t)f->rank, .count = ours->bytes / size};
		other = (struct announcement){.kind = K_SEND, .dtype = ours->dtype, .root = (uint32_t)e->hosts->me, .count = theirs->bytes / size};
	}
	return fail_between(e, f->rank, &own, &other);
}

static int header_agrees(const struct flow *f) {
	const struct net_header *a = &f->frame.header, *b = &f->expected;
	return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op && a->root == b->root && a->count == b->count &&
	       a->sequence == b->sequence && a->bytes == b->bytes;
}

// --- a step of one flow ---

static ssize_t transfer(int fd, const struct flow *f, struct iovec *parts, int n) {
	struct msghdr m = {.msg_iov = parts, .msg_iovlen = (size_t)n};
	if (n == 1) {
		if (f->out) return send(fd, parts->iov_base, parts->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
		return recv(fd, parts->iov_base, parts->iov_len, MSG_DONTWAIT);
	}
	return f->out ? sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) : recvmsg(fd, &m, MSG_DONTWAIT);
}

// settle_head is called when the header has come as a whole.
static int settle_head(struct engine *e, struct flow *f) {
	if (f->out) {
		if (is_small(f)) f->moved = f->bytes;
		return RUN_OK;
	}
	if (!header_agrees(f)) return net_differs(e, f);
	if (!is_small(f)) return RUN_OK;
	if (f->bytes) memcpy(f->data, f->frame.small, f->bytes);
	f->moved = f->bytes;
	return RUN_OK;
}

// account adds to the bytes that moved.
static int account(struct engine *e, struct flow *f, size_t n) {
	size_t head = smaller(n, framed(f) - f->head);
	int whole = sizeof f->frame.header <= f->head;
	f->head += head;
	if (!is_small(f)) f->moved += n - head;
	if (!f->out && !whole && f->head >= sizeof f->frame.header && !header_agrees(f)) return net_differs(e, f);
	return head && f->head == framed(f) ? settle_head(e, f) : RUN_OK;
}

static int flow_step(struct engine *e, struct flow *f, int *moved) {
	struct iovec parts[2];
	int n = 0;
	size_t head = framed(f) - f->head, part = is_small(f) ? 0 : allowed(f);
	if (head) parts[n++] = (struct iovec){(char *)&f->frame + f->head, head};
	if (part) parts[n++] = (struct iovec){place_of(f), part};
	if (!n) return RUN_OK;
	ssize_t done = transfer(e->hosts->fds[f->rank], f, parts, n);
	if (done > 0) {
		*moved = 1;
		return account(e, f, (size_t)done);
	}
	if (done < 0 && (errno == EAGAIN || errno == EINTR)) return RUN_OK;
	return net_lost(e, f->rank);
}

// --- waiting ---

struct patience {
	uint64_t since; // when nothing moved for the first time; 0: something did
	int looks;
	int rank; // who is waited for
	struct sharing began; // the part of it that offers the CPU
};

// movable says whether the flow waits for its socket, not for another flow.
static int movable(const struct flow *f) { return !over(f) && (f->head < framed(f) || (!is_small(f) && allowed(f))); }

// net_obstacle says what makes further waiting useless.
static int net_obstacle(struct engine *e, struct patience *p) {
	uint64_t waited = now_ns() - p->since;
	int gone = atomic_load(&e->hosts->gone[p->rank]);
	if (atomic_load_explicit(&e->cancelled, memory_order_relaxed)) return RUN_CANCELLED;
	if (atomic_load_explicit(&e->header->failed, memory_order_acquire)) return RUN_FAILED;
	if (gone && waited > REST_NS) return fail_gone(e, p->rank, gone);
	if (e->timeout_ns && waited >= e->timeout_ns) return fail_late(e, p->rank, waited);
	return RUN_OK;
}

static void say_waits(struct engine *e, uint64_t what) { atomic_store_explicit(&area_of(e, e->me)->waits.value, what, memory_order_relaxed); }

// waited_for is a rank from which, or else to which, something has to move.
static int waited_for(const struct engine *e, int flows) {
	int rank = -1;
	for (int i = 0; i < flows; i++) {
		const struct flow *f = &e->hosts->flows[i];
		if (movable(f) && (rank < 0 || !f->out)) rank = f->rank;
	}
	return rank;
}

static int net_nap(struct engine *e, int flows, struct patience *p) {
	struct hosts *h = e->hosts;
	int n = 0;
	p->rank = waited_for(e, flows);
	for (int i = 0; i < flows; i++) {
		struct flow *f = &h->flows[i];
		if (movable(f)) h->polls[n++] = (struct pollfd){.fd = h->fds[f->rank], .events = f->out ? POLLOUT : POLLIN};
	}
	if (!n) return fail_with(e, "nothing can move between the hosts: this is a bug in gorun/comm");
	if (!p->since) p->since = now_ns();
	say_waits(e, (uint64_t)(p->rank + 1) << 8 | CH_NET);
	return poll(h->polls, (nfds_t)n, NAP_NS / 1000000) > 0 ? RUN_OK : net_obstacle(e, p);
}

// How often sockets are looked at before the thread sleeps: a look costs a system call for each flow. The first ones take as long as an answer
// from a rank that is there already. After them the thread offers its CPU to others between two looks: what it waits for may have to be
// computed, or carried by the kernel, on this very CPU.
enum { NET_LOOKS = 2000, NET_LOOKS_CROWDED = 20, NET_GREEDY = 100, NET_FEW = 8, NET_A_TIME = 64, NET_LOOK_NS = 10 * 1000 * 1000 };

// looked_enough looks at the clock: where others compute on this CPU each offer of it takes a time slice of milliseconds.
static int looked_enough(struct patience *p) {
	uint64_t now = now_ns();
	if (!p->since) p->since = now;
	return now - p->since > NET_LOOK_NS;
}

static int greedy(const struct engine *e) { return e->spins ? NET_GREEDY : 0; }

static int net_idle(struct engine *e, int flows, struct patience *p) {
	int looks = flows > NET_FEW ? 0 : (e->spins ? NET_LOOKS : NET_LOOKS_CROWDED) / flows;
	if (p->looks++ < looks) {
		if (p->looks == greedy(e) + 1) {
			say_waits(e, (uint64_t)(waited_for(e, flows) + 1) << 8 | CH_NET);
			sharing_begin(e, &p->began);
		}
		if (p->looks > greedy(e)) sched_yield();
		if (p->looks % NET_A_TIME == 0 && looked_enough(p)) p->looks = looks;
		return RUN_OK;
	}
	return net_nap(e, flows, p);
}

// step_all lets the flows of one direction move and counts those that are not over.
static int step_all(struct engine *e, int flows, int out, int *left, int *moved) {
	for (int i = 0; i < flows; i++) {
		struct flow *f = &e->hosts->flows[i];
		if (f->out != out) continue;
		if (movable(f)) TRY(flow_step(e, f, moved));
		*left += !over(f);
	}
	return RUN_OK;
}

int net_run(struct engine *e, int flows, net_use use, void *state) {
	struct patience p = {0};
	for (;;) {
		int left = 0, moved = 0;
		TRY(step_all(e, flows, 1, &left, &moved)); // first what others wait for
		TRY(step_all(e, flows, 0, &left, &moved));
		if (use && (moved || !left)) TRY(use(e, state, &moved));
		if (p.looks > greedy(e) && moved) sharing_end(e, &p.began);
		if (p.looks && (moved || !left)) say_waits(e, 0); // only then: after RUN_LATE others ask what we waited for
		if (!left) return RUN_OK;
		if (!moved) TRY(net_idle(e, flows, &p));
		else p = (struct patience){0};
	}
}
