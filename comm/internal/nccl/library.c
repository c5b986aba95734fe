//go:build cgo

#define _GNU_SOURCE // dladdr
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

// ncclResult_t and cudaError_t.
enum { SUCCESS = 0, IN_PROGRESS = 7, NOT_READY = 600 };

// A function of a library, and where its address goes.
struct symbol {
    const char *name;
    const char *other; // another spelling, or NULL
    size_t at;
    int optional;
};

#define OF_NCCL(field) offsetof(struct gorun_nccl, field)
static const struct symbol nccl_symbols[] = {
    {"ncclGetVersion", NULL, OF_NCCL(get_version), 0},
    {"ncclGetErrorString", NULL, OF_NCCL(get_error_string), 0},
    {"ncclGetLastError", NULL, OF_NCCL(get_last_error), 1},
    {"ncclGetUniqueId", NULL, OF_NCCL(get_unique_id), 0},
    {"ncclCommInitRankConfig", NULL, OF_NCCL(init_rank_config), 0},
    {"ncclCommInitRankScalable", NULL, OF_NCCL(init_rank_scalable), 1},
    {"ncclCommFinalize", NULL, OF_NCCL(finalize), 0},
    {"ncclCommDestroy", NULL, OF_NCCL(destroy), 0},
    {"ncclCommAbort", NULL, OF_NCCL(abort), 0},
    {"ncclCommGetAsyncError", NULL, OF_NCCL(get_async_error), 0},
    {"ncclGroupStart", NULL, OF_NCCL(group_start), 0},
    {"ncclGroupEnd", NULL, OF_NCCL(group_end), 0},
    {"ncclAllReduce", NULL, OF_NCCL(all_reduce), 0},
    {"ncclReduce", NULL, OF_NCCL(reduce), 0},
    {"ncclBroadcast", NULL, OF_NCCL(broadcast), 0},
    {"ncclAllGather", NULL, OF_NCCL(all_gather), 0},
    {"ncclReduceScatter", NULL, OF_NCCL(reduce_scatter), 0},
    {"ncclSend", NULL, OF_NCCL(send), 0},
    {"ncclRecv", NULL, OF_NCCL(recv), 0},
    {"ncclAlltoAll", "ncclAllToAll", OF_NCCL(all_to_all), 1},
};

#define OF_RUNTIME(field) offsetof(struct gorun_runtime, field)
static const struct symbol runtime_symbols[] = {
    {"GetDeviceCount", NULL, OF_RUNTIME(get_device_count), 0},
    {"DriverGetVersion", NULL, OF_RUNTIME(driver_get_version), 0},
    {"SetDevice", NULL, OF_RUNTIME(set_device), 0},
    {"StreamCreateWithFlags", NULL, OF_RUNTIME(stream_create), 0},
    {"StreamDestroy", NULL, OF_RUNTIME(stream_destroy), 0},
    {"StreamQuery", NULL, OF_RUNTIME(stream_query), 0},
    {"StreamSynchronize", NULL, OF_RUNTIME(stream_synchronize), 0},
    {"Malloc", NULL, OF_RUNTIME(malloc), 0},
    {"Free", NULL, OF_RUNTIME(free), 0},
    {"MemcpyAsync", NULL, OF_RUNTIME(memcpy_async), 0},
    {"GetErrorString", NULL, OF_RUNTIME(get_error_string), 0},
    {"GetLastError", NULL, OF_RUNTIME(get_last_error), 0},
};

// find looks one function up, with prefix before its name.
static void *find(void *handle, const char *prefix, const char *name) {
    char whole[64];
    if (name == NULL) return NULL;
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    return dlsym(handle, whole);
}

// resolve fills in a table and returns the first required function that is not there.
static const char *resolve(void *handle, const char *prefix, const struct symbol *symbols, size_t n, char *table) {
    const char *missing = NULL;
    for (size_t i = 0; i < n; i++) {
        void *at = find(handle, prefix, symbols[i].name);
        if (at == NULL) at = find(handle, prefix, symbols[i].other);
        memcpy(table + symbols[i].at, &at, sizeof at); // ISO C knows no cast from an object's to a function's pointer
        if (at == NULL && !symbols[i].optional && missing == NULL) missing = symbols[i].name;
    }
    return missing;
}

// load opens a library for good: closing one that has threads of its own would end the program.
static void *load(const char *path, char *why, size_t room) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) snprintf(why, room, "%s", dlerror());
    return handle;
}

// located writes the file that holds the function at the beginning of field.
static void located(const void *field, const char *path, char *file, size_t room) {
    void *at;
    Dl_info info;
    memcpy(&at, field, sizeof at);
    int known = at != NULL && dladdr(at, &info) != 0 && info.dli_fname != NULL;
    snprintf(file, room, "%s", known ? info.dli_fname : path);
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

int gorun_open_nccl(const char *path, struct gorun_nccl *library, char *file, char *why, size_t room) {
    void *handle = load(path, why, room);
    if (handle == NULL) return -1;
    library->missing = resolve(handle, "", nccl_symbols, COUNT(nccl_symbols), (char *)library);
    located(&library->get_version, path, file, room);
    return 0;
}

int gorun_open_runtime(const char *path, const char *prefix, struct gorun_runtime *library, char *file, char *why, size_t room) {
    void *handle = load(path, why, room);
    if (handle == NULL) return -1;
    library->missing = resolve(handle, prefix, runtime_symbols, COUNT(runtime_symbols), (char *)library);
    located(&library->get_device_count, path, file, room);
    return 0;
}

// What the functions return.
static const struct gorun_status fine = {NULL, 0, 0};

static struct gorun_status of_runtime(const char *function, int code) {
    return code == SUCCESS ? fine : (struct gorun_status){function, code, 0};
}

// A communicator that does not block answers "in progress" where another would wait.
static struct gorun_status of_nccl(const char *function, int code) {
    return code == SUCCESS || code == IN_PROGRESS ? fine : (struct gorun_status){function, code, 1};
}

// TRY leaves the function with the first failure.
#define TRY(call)                                            \
    do {                                                     \
        struct gorun_status status_ = (call);                \
        if (status_.function != NULL) return status_;        \
    } while (0)

static struct gorun_status on_device(const struct gorun_runtime *runtime, int device) {
    return of_runtime("SetDevice", runtime->set_device(device));
}

int gorun_version(const struct gorun_nccl *nccl) {
    int version = 0;
    return nccl->get_version == NULL || nccl->get_version(&version) != SUCCESS ? 0 : version;
}

int gorun_unique_id(const struct gorun_nccl *nccl, struct gorun_id *id) { return nccl->get_unique_id(id); }

const char *gorun_nccl_text(const struct gorun_nccl *nccl, int code) { return nccl->get_error_string(code); }

const char *gorun_nccl_last(const struct gorun_nccl *nccl, void *comm) {
    const char *said = nccl->get_last_error == NULL ? NULL : nccl->get_last_error(comm);
    return said == NULL ? "" : said;
}

const char *gorun_runtime_text(const struct gorun_runtime *runtime, int code) { return runtime->get_error_string(code); }

struct gorun_status gorun_device_count(const struct gorun_runtime *runtime, int *count, int *driver) {
    *count = *driver = 0;
    TRY(of_runtime("DriverGetVersion", runtime->driver_get_version(driver)));
    int code = runtime->get_device_count(count);
    if (code != SUCCESS) {
        *count = 0;
        runtime->get_last_error(); // else the next caller of another library would get it
    }
    return of_runtime("GetDeviceCount", code);
}

struct gorun_status gorun_stream(const struct gorun_runtime *runtime, int device, void **stream) {
    const unsigned non_blocking = 1; // it does not wait for the default stream, which may be anybody's
    TRY(on_device(runtime, device));
    return of_runtime("StreamCreateWithFlags", runtime->stream_create(stream, non_blocking));
}

struct gorun_status gorun_alloc(const struct gorun_runtime *runtime, int device, void **at, size_t bytes) {
    TRY(on_device(runtime, device));
    return of_runtime("Malloc", runtime->malloc(at, bytes));
}

struct gorun_status gorun_free(const struct gorun_runtime *runtime, int device, void *at) {
    TRY(on_device(runtime, device));
    return of_runtime("Free", runtime->free(at));
}

struct gorun_status gorun_synchronize(const struct gorun_runtime *runtime, int device, void *stream) {
    TRY(on_device(runtime, device));
    return of_runtime("StreamSynchronize", runtime->stream_synchronize(stream));
}

struct gorun_status gorun_copy(const struct gorun_runtime *runtime, int device, void *stream, uintptr_t to, uintptr_t from, size_t bytes,
                               int kind, int wait) {
    TRY(on_device(runtime, device));
    TRY(of_runtime("MemcpyAsync", runtime->memcpy_async((void *)to, (const void *)from, bytes, kind, stream)));
    return wait ? of_runtime("StreamSynchronize", runtime->stream_synchronize(stream)) : fine;
}

struct gorun_status gorun_init(struct gorun_rank *r, int ranks, int rank, int ids, struct gorun_id *id) {
    struct gorun_config config = {.size = sizeof config, .magic = 0xcafebeef, .version = 21400, .blocking = 0};
    TRY(gorun_stream(r->runtime, r->device, &r->stream));
    if (ids > 1) return of_nccl("ncclCommInitRankScalable", r->nccl->init_rank_scalable(&r->comm, ranks, rank, ids, id, &config));
    return of_nccl("ncclCommInitRankConfig", r->nccl->init_rank_config(&r->comm, ranks, *id, rank, &config));
}

int gorun_joined(struct gorun_rank *r, struct gorun_status *status) {
    int state = SUCCESS;
    *status = of_nccl("ncclCommGetAsyncError", r->nccl->get_async_error(r->comm, &state));
    if (status->function == NULL) *status = of_nccl("ncclCommGetAsyncError", state);
    return status->function == NULL && state != IN_PROGRESS;
}

static struct gorun_status one_step(struct gorun_rank *r, const struct gorun_step *s) {
    const struct gorun_nccl *n = r->nccl;
    void *comm = r->comm, *stream = r->stream;
    switch (s->what) {
    case GORUN_ALL_REDUCE: return of_nccl("ncclAllReduce", n->all_reduce(s->send, s->recv, s->count, s->dtype, s->op, comm, stream));
    case GORUN_REDUCE: return of_nccl("ncclReduce", n->reduce(s->send, s->recv, s->count, s->dtype, s->op, s->peer, comm, stream));
    case GORUN_BROADCAST: return of_nccl("ncclBroadcast", n->broadcast(s->send, s->recv, s->count, s->dtype, s->peer, comm, stream));
    case GORUN_ALL_GATHER: return of_nccl("ncclAllGather", n->all_gather(s->send, s->recv, s->count, s->dtype, comm, stream));
    case GORUN_REDUCE_SCATTER: return of_nccl("ncclReduceScatter", n->reduce_scatter(s->send, s->recv, s->count, s->dtype, s->op, comm, stream));
    case GORUN_SEND: return of_nccl("ncclSend", n->send(s->send, s->count, s->dtype, s->peer, comm, stream));
    case GORUN_RECV: return of_nccl("ncclRecv", n->recv(s->recv, s->count, s->dtype, s->peer, comm, stream));
    default: return of_nccl("ncclAlltoAll", n->all_to_all(s->send, s->recv, s->count, s->dtype, comm, stream));
    }
}

struct gorun_status gorun_enqueue(struct gorun_rank *r, const struct gorun_step *steps, size_t n) {
    TRY(on_device(r->runtime, r->device));
    if (n == 1) return one_step(r, steps);
    TRY(of_nccl("ncclGroupStart", r->nccl->group_start()));
    struct gorun_status first = fine;
    for (size_t i = 0; i < n && first.function == NULL; i++) first = one_step(r, &steps[i]);
    // A group that was opened is closed in any case: the thread will be used by others.
    struct gorun_status end = of_nccl("ncclGroupEnd", r->nccl->group_end());
    return first.function != NULL ? first : end;
}

int gorun_done(struct gorun_rank *r, int looks, struct gorun_status *status) {
    enum { EVERY = 32 }; // looks at the stream between two at the communicator
    *status = on_device(r->runtime, r->device);
    int enqueued = 0;
    for (int look = 0; status->function == NULL && look < looks; look++) {
        // Until the communicator says so the steps may not be in the stream yet, and an empty stream is done.
        if (!enqueued || look % EVERY == 0) enqueued = gorun_joined(r, status);
        if (!enqueued) continue;
        int code = r->runtime->stream_query(r->stream);
        if (code == SUCCESS) return 1;
        if (code != NOT_READY) *status = of_runtime("StreamQuery", code);
    }
    r->runtime->get_last_error(); // "not ready" must not be left for others
    return 0;
}

struct gorun_status gorun_finalize(struct gorun_rank *r) {
    TRY(on_device(r->runtime, r->device));
    return of_nccl("ncclCommFinalize", r->nccl->finalize(r->comm));
}

struct gorun_status gorun_leave(struct gorun_rank *r, int force) {
    struct gorun_status left = on_device(r->runtime, r->device);
    if (r->comm != NULL) {
        left = force ? of_nccl("ncclCommAbort", r->nccl->abort(r->comm)) : of_nccl("ncclCommDestroy", r->nccl->destroy(r->comm));
        r->comm = NULL;
    }
    if (r->stream != NULL) {
        struct gorun_status freed = of_runtime("StreamDestroy", r->runtime->stream_destroy(r->stream));
        if (left.function == NULL) left = freed;
        r->stream = NULL;
    }
    return left;
}
