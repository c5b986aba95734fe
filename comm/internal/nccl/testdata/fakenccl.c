// A libnccl.so.2 for ranks that are threads of one process, on the fake runtime's memory. It does what it is asked, refuses what the real one would
// refuse or crash on (memory that is no GPU's, another GPU current, a group left open, calls that differ), and answers "in progress" first, as a
// communicator that does not block may.
//
// FAKE_NCCL_VERSION is its version's number, FAKE_NCCL_ID=CODE fails ncclGetUniqueId, FAKE_NCCL_INIT=hang|CODE has joining hang or fail,
// FAKE_NCCL_RUN=hang|CODE an operation (a code of 100 and more is the stream's), FAKE_NCCL_END=hang finalizing. -DNO_ALLTOALL, -DNO_SCALABLE and
// -DOLD leave functions out.
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, IN_PROGRESS = 7 };
enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, SEND, RECV };
enum { MAX_RANKS = 512, SHY = 3 }; // SHY: how often a communicator says "in progress" before it gives its work to the stream

typedef struct {
    char bytes[128];
} id_t128;

struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

struct op {
    struct op *next;
    struct comm *comm;
    struct fake_stream *stream;
    int what, dtype, redop, peer;
    size_t count;
    const char *send;
    char *recv;
    unsigned long sequence; // of collectives
    int posted;             // 0: not in its stream yet, 1: there, 2: there for ever
};

struct clique {
    struct clique *next;
    id_t128 id;
    int ranks, joined;
};

struct comm {
    struct clique *clique;
    int rank, device, state, shy, finalized;
    unsigned long sequence;
};

static struct clique *cliques;
static struct op *ops; // all that are not done, oldest first
static char last_error[256];
static __thread int depth;
static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

static int fail(int code, const char *why) {
    snprintf(last_error, sizeof last_error, "%s", why);
    fake_log("refused: %s", why);
    return code;
}

int ncclGetVersion(int *version) {
    *version = atoi(fake_setting("FAKE_NCCL_VERSION", "23007"));
    return SUCCESS;
}

const char *ncclGetErrorString(int code) {
    static const char *texts[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument", "invalid usage",
                                  "remote process exited or there was a network error", "NCCL operation in progress"};
    return code >= 0 && code < 8 ? texts[code] : "unknown result code";
}

const char *ncclGetLastError(void *comm) {
    (void)comm;
    return last_error;
}

int ncclGetUniqueId(id_t128 *id) {
    static int made;
    int code = atoi(fake_setting("FAKE_NCCL_ID", "0"));
    if (code != SUCCESS) return fail(code, "Bootstrap : no socket interface found");
    pthread_mutex_lock(&fake_lock);
    memset(id, 0x5a, sizeof *id); // the last bytes must arrive, too
    snprintf(id->bytes, sizeof id->bytes, "fake %d", ++made);
    pthread_mutex_unlock(&fake_lock);
    fake_log("ncclGetUniqueId");
    return SUCCESS;
}

static struct clique *clique_of(const id_t128 *id, int ranks) {
    struct clique *c = cliques;
    while (c != NULL && memcmp(&c->id, id, sizeof *id) != 0) c = c->next;
    if (c != NULL) return c;
    c = calloc(1, sizeof *c);
    c->next = cliques;
    c->id = *id;
    c->ranks = ranks;
    return cliques = c;
}

static int joining(void **comm, int ranks, const id_t128 *id, int rank, const struct config *config) {
    const char *how = fake_setting("FAKE_NCCL_INIT", "");
    fake_log("rank %d init %d GPU %d config %zu %x %u %d", rank, ranks, fake_device(), config->size, config->magic, config->version, config->blocking);
    if (config->size != 24 || config->magic != 0xcafebeef || config->version != 21400) return fail(INVALID_ARGUMENT, "config");
    if (ranks > MAX_RANKS || id->bytes[127] != 0x5a) return fail(INVALID_ARGUMENT, "id");
    struct comm *made = calloc(1, sizeof *made);
    *comm = made;
    made->rank = rank;
    made->device = fake_device();
    made->shy = SHY;
    pthread_mutex_lock(&fake_lock);
    made->clique = clique_of(id, ranks);
    if (strcmp(how, "hang") != 0 && *how != '\0') made->state = fail(atoi(how), "Duplicate GPU detected");
    if (*how == '\0') made->clique->joined++;
    pthread_mutex_unlock(&fake_lock);
    return IN_PROGRESS;
}

#ifndef OLD
int ncclCommInitRankConfig(void **comm, int ranks, id_t128 id, int rank, struct config *config) { return joining(comm, ranks, &id, rank, config); }
#endif

#ifndef NO_SCALABLE
int ncclCommInitRankScalable(void **comm, int ranks, int rank, int n, id_t128 *ids, struct config *config) {
    fake_log("rank %d scalable %d ids", rank, n);
    for (int i = 0; i < n; i++)
        if (ids[i].bytes[127] != 0x5a) return fail(INVALID_ARGUMENT, "id");
    return joining(comm, ranks, &ids[0], rank, config);
}
#endif

// Arithmetic of one type: op as ncclRedOp_t.
#define REDUCER(name, type)                                                        \
    static void name(void *into, const void *from, size_t n, int op) {             \
        type *a = into;                                                            \
        const type *b = from;                                                      \
        for (size_t i = 0; i < n; i++) {                                           \
            if (op == 0 || op == 4) a[i] = (type)(a[i] + b[i]);                    \
            if (op == 1) a[i] = (type)(a[i] * b[i]);                               \
            if (op == 2 && b[i] > a[i]) a[i] = b[i];                               \
            if (op == 3 && b[i] < a[i]) a[i] = b[i];                               \
        }                                                                          \
    }                                                                              \
    static void name##_share(void *of, size_t n, int ranks) {                      \
        type *a = of;                                                              \
        for (size_t i = 0; i < n; i++) a[i] = (type)(a[i] / (type)ranks);          \
    }
REDUCER(int8, signed char)
REDUCER(uint8, unsigned char)
REDUCER(int32, int)
REDUCER(uint32, unsigned)
REDUCER(int64, long long)
REDUCER(uint64, unsigned long long)
REDUCER(float32, float)
REDUCER(float64, double)

static void (*const add_up[])(void *, const void *, size_t, int) = {int8, uint8, int32, uint32, int64, uint64, NULL, float32, float64, NULL};
static void (*const share[])(void *, size_t, int) = {int8_share, uint8_share, int32_share, uint32_share, int64_share, uint64_share, NULL, float32_share, float64_share, NULL};

// reduced is the reduction of all ranks' n elements.
static char *reduced(struct op **of, int ranks, size_t n) {
    char *sum = malloc(n * sizes[of[0]->dtype]);
    memcpy(sum, of[0]->send, n * sizes[of[0]->dtype]);
    for (int r = 1; r < ranks; r++) add_up[of[0]->dtype](sum, of[r]->send, n, of[0]->redop);
    if (of[0]->redop == 4) share[of[0]->dtype](sum, n, ranks);
    return sum;
}

// collect does one collective whose operations have all come.
static void collect(struct op **of, int ranks) {
    struct op *one = of[0];
    size_t block = one->count * sizes[one->dtype];
    char *all;
    switch (one->what) {
    case ALL_REDUCE:
    case REDUCE:
        all = reduced(of, ranks, one->count);
        for (int r = 0; r < ranks; r++)
            if (one->what == ALL_REDUCE || r == one->peer) memcpy(of[r]->recv, all, block);
        break;
    case REDUCE_SCATTER:
        all = reduced(of, ranks, one->count * (size_t)ranks);
        for (int r = 0; r < ranks; r++) memcpy(of[r]->recv, all + block * (size_t)r, block);
        break;
    case BROADCAST:
        all = malloc(block);
        memcpy(all, of[one->peer]->send, block);
        for (int r = 0; r < ranks; r++) memcpy(of[r]->recv, all, block);
        break;
    case ALL_GATHER:
        all = malloc(block * (size_t)ranks);
        for (int r = 0; r < ranks; r++) memcpy(all + block * (size_t)r, of[r]->send, block);
        for (int r = 0; r < ranks; r++) memcpy(of[r]->recv, all, block * (size_t)ranks);
        break;
    default:
        all = NULL;
        for (int to = 0; to < ranks; to++)
            for (int from = 0; from < ranks; from++) memcpy(of[to]->recv + block * (size_t)from, of[from]->send + block * (size_t)to, block);
    }
    free(all);
}

static void finish(struct op *done) {
    struct op **link = &ops;
    while (*link != done) link = &(*link)->next;
    *link = done->next;
    done->stream->pending -= done->posted != 0;
    free(done);
}

static int same(const struct op *a, const struct op *b) {
    return a->what == b->what && a->count == b->count && a->dtype == b->dtype && a->redop == b->redop && a->peer == b->peer;
}

// match_collective does the collective that o belongs to, if all ranks are there.
static int match_collective(struct op *o) {
    struct op *of[MAX_RANKS] = {NULL};
    int ranks = o->comm->clique->ranks, there = 0;
    for (struct op *other = ops; other != NULL; other = other->next) {
        if (other->posted != 1 || other->what >= SEND || other->comm->clique != o->comm->clique || other->sequence != o->sequence) continue;
        if (!same(o, other)) {
            o->comm->state = other->comm->state = fail(INVALID_USAGE, "the ranks' calls differ");
            return 0;
        }
        of[other->comm->rank] = other;
        there++;
    }
    if (there < ranks) return 0;
    collect(of, ranks);
    for (int r = 0; r < ranks; r++) finish(of[r]);
    return 1;
}

// match_pair does a receive with the oldest send that fits.
static int match_pair(struct op *to) {
    for (struct op *from = ops; from != NULL; from = from->next) {
        if (from->posted != 1 || from->what != SEND || from->comm->clique != to->comm->clique || from->comm->rank != to->peer || from->peer != to->comm->rank) continue;
        memcpy(to->recv, from->send, to->count * sizes[to->dtype]);
        finish(from);
        finish(to);
        return 1;
    }
    return 0;
}

// progress does all that can be done.
static void progress(void) {
    for (struct op *o = ops; o != NULL;) {
        int moved = o->posted == 1 && (o->what == RECV ? match_pair(o) : o->what != SEND && match_collective(o));
        o = moved ? ops : o->next;
    }
}

// post gives a communicator's operations to its stream.
static void post(struct comm *c) {
    const char *how = fake_setting("FAKE_NCCL_RUN", "");
    for (struct op *o = ops; o != NULL; o = o->next) {
        if (o->comm != c || o->posted) continue;
        o->stream->pending++;
        o->posted = *how == '\0' ? 1 : 2;
        if (atoi(how) >= 100) o->stream->error = atoi(how);
        if (atoi(how) > 0 && atoi(how) < 100) c->state = fail(atoi(how), "socketProgress: Connection closed by remote peer");
    }
    progress();
}

int ncclCommGetAsyncError(void *comm, int *state) {
    struct comm *c = comm;
    pthread_mutex_lock(&fake_lock);
    *state = c->state;
    if (c->state == SUCCESS && (c->clique->joined < c->clique->ranks || strcmp(fake_setting("FAKE_NCCL_INIT", ""), "hang") == 0)) *state = IN_PROGRESS;
    if (c->finalized && strcmp(fake_setting("FAKE_NCCL_END", ""), "hang") == 0) *state = IN_PROGRESS;
    if (*state == SUCCESS && c->shy > 0) {
        *state = IN_PROGRESS;
        if (--c->shy == 0) post(c);
    }
    pthread_mutex_unlock(&fake_lock);
    return SUCCESS;
}

int ncclGroupStart(void) {
    depth++;
    fake_log("ncclGroupStart");
    return SUCCESS;
}

int ncclGroupEnd(void) {
    fake_log("ncclGroupEnd");
    return --depth < 0 ? fail(INVALID_USAGE, "ncclGroupEnd without ncclGroupStart") : IN_PROGRESS;
}

static int enqueue(const char *name, struct op o, size_t sends, size_t recvs) {
    struct comm *c = o.comm;
    size_t size = sizes[o.dtype];
    fake_log("rank %d %s count %zu type %d op %d peer %d%s", c->rank, name, o.count, o.dtype, o.redop, o.peer, depth > 0 ? " in group" : "");
    if (fake_device() != c->device) return fail(INVALID_ARGUMENT, "another GPU is current");
    pthread_mutex_lock(&fake_lock);
    int owned = (sends == 0 || fake_owns(o.send, sends * size)) && (recvs == 0 || fake_owns(o.recv, recvs * size));
    if (owned) {
        struct op *kept = malloc(sizeof *kept), **end = &ops;
        *kept = o;
        if (o.what < SEND) kept->sequence = c->sequence++;
        while (*end != NULL) end = &(*end)->next;
        *end = kept;
        c->shy = SHY;
    }
    pthread_mutex_unlock(&fake_lock);
    return owned ? IN_PROGRESS : fail(INVALID_ARGUMENT, "memory of no GPU");
}

#define RANKS(comm) ((size_t)((struct comm *)(comm))->clique->ranks)
#define ROOT_ONLY(comm, root, n) (((struct comm *)(comm))->rank == (root) ? (n) : 0)

int ncclAllReduce(const void *s, void *r, size_t n, int type, int op, void *comm, void *stream) {
    return enqueue("ncclAllReduce", (struct op){NULL, comm, stream, ALL_REDUCE, type, op, 0, n, s, r, 0, 0}, n, n);
}
int ncclReduce(const void *s, void *r, size_t n, int type, int op, int root, void *comm, void *stream) {
    return enqueue("ncclReduce", (struct op){NULL, comm, stream, REDUCE, type, op, root, n, s, r, 0, 0}, n, ROOT_ONLY(comm, root, n));
}
int ncclBroadcast(const void *s, void *r, size_t n, int type, int root, void *comm, void *stream) {
    return enqueue("ncclBroadcast", (struct op){NULL, comm, stream, BROADCAST, type, 0, root, n, s, r, 0, 0}, ROOT_ONLY(comm, root, n), n);
}
int ncclAllGather(const void *s, void *r, size_t n, int type, void *comm, void *stream) {
    return enqueue("ncclAllGather", (struct op){NULL, comm, stream, ALL_GATHER, type, 0, 0, n, s, r, 0, 0}, n, n * RANKS(comm));
}
int ncclReduceScatter(const void *s, void *r, size_t n, int type, int op, void *comm, void *stream) {
    return enqueue("ncclReduceScatter", (struct op){NULL, comm, stream, REDUCE_SCATTER, type, op, 0, n, s, r, 0, 0}, n * RANKS(comm), n);
}
#ifndef NO_ALLTOALL
int ncclAlltoAll(const void *s, void *r, size_t n, int type, void *comm, void *stream) {
    if (s == r) return fail(INVALID_ARGUMENT, "all-to-all in place");
    return enqueue("ncclAlltoAll", (struct op){NULL, comm, stream, ALL_TO_ALL, type, 0, 0, n, s, r, 0, 0}, n * RANKS(comm), n * RANKS(comm));
}
#endif
int ncclSend(const void *s, size_t n, int type, int peer, void *comm, void *stream) {
    return enqueue("ncclSend", (struct op){NULL, comm, stream, SEND, type, 0, peer, n, s, NULL, 0, 0}, n, 0);
}
#ifndef NO_RECV
int ncclRecv(void *r, size_t n, int type, int peer, void *comm, void *stream) {
    return enqueue("ncclRecv", (struct op){NULL, comm, stream, RECV, type, 0, peer, n, NULL, r, 0, 0}, 0, n);
}
#endif

int ncclCommFinalize(void *comm) {
    struct comm *c = comm;
    fake_log("rank %d ncclCommFinalize", c->rank);
    c->finalized = 1;
    return IN_PROGRESS;
}

static void forget(struct comm *c) {
    pthread_mutex_lock(&fake_lock);
    for (struct op *o = ops, *next; o != NULL; o = next) {
        next = o->next;
        if (o->comm == c) finish(o);
    }
    pthread_mutex_unlock(&fake_lock);
    free(c);
}

int ncclCommDestroy(void *comm) {
    struct comm *c = comm;
    fake_log("rank %d ncclCommDestroy", c->rank);
    if (!c->finalized) return fail(INVALID_USAGE, "not finalized");
    forget(c);
    return SUCCESS;
}

int ncclCommAbort(void *comm) {
    struct comm *c = comm;
    fake_log("rank %d ncclCommAbort", c->rank);
    forget(c);
    return SUCCESS;
}
