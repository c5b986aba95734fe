// What comm uses of NCCL (or RCCL) and of the CUDA (or HIP) runtime, with its own declarations, found with dlopen and dlsym.
//
// The current device is per thread in CUDA and a group is per thread in NCCL, and Go moves its goroutines between threads: so each function here
// sets the device itself and opens and closes its group.
#ifndef GORUN_COMM_NCCL_LIBRARY_H
#define GORUN_COMM_NCCL_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

// ncclUniqueId. NCCL takes it by value.
struct gorun_id {
    char bytes[128];
};

// ncclConfig_t as NCCL 2.14 had it. The library copies as much as `size` says and gives later fields their defaults, so that this one layout
// works with every later version.
struct gorun_config {
    size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
};

// A library of collectives. Functions return ncclResult_t; comm and stream are pointers.
struct gorun_nccl {
    const char *missing; // the first required function that it lacks, or NULL
    int (*get_version)(int *);
    const char *(*get_error_string)(int);
    const char *(*get_last_error)(void *comm); // 2.13, optional
    int (*get_unique_id)(struct gorun_id *);
    int (*init_rank_config)(void **comm, int ranks, struct gorun_id, int rank, struct gorun_config *);
    int (*init_rank_scalable)(void **comm, int ranks, int rank, int ids, struct gorun_id *, struct gorun_config *); // 2.23, optional
    int (*finalize)(void *comm);
    int (*destroy)(void *comm);
    int (*abort)(void *comm);
    int (*get_async_error)(void *comm, int *);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*all_reduce)(const void *, void *, size_t, int dtype, int op, void *comm, void *stream);
    int (*reduce)(const void *, void *, size_t, int dtype, int op, int root, void *comm, void *stream);
    int (*broadcast)(const void *, void *, size_t, int dtype, int root, void *comm, void *stream);
    int (*all_gather)(const void *, void *, size_t, int dtype, void *comm, void *stream);
    int (*reduce_scatter)(const void *, void *, size_t, int dtype, int op, void *comm, void *stream);
    int (*send)(const void *, size_t, int dtype, int peer, void *comm, void *stream);
    int (*recv)(void *, size_t, int dtype, int peer, void *comm, void *stream);
    int (*all_to_all)(const void *, void *, size_t, int dtype, void *comm, void *stream); // 2.28 (RCCL: another spelling), optional
};

// The runtime of the GPUs. Functions return cudaError_t or hipError_t, which agree in the numbers used here.
struct gorun_runtime {
    const char *missing;
    int (*get_device_count)(int *);
    int (*driver_get_version)(int *);
    int (*set_device)(int);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_query)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*malloc)(void **, size_t);
    int (*free)(void *);
    int (*memcpy_async)(void *, const void *, size_t, int kind, void *stream);
    const char *(*get_error_string)(int);
    int (*get_last_error)(void);
};

// How something ended: the function that failed (without cuda or hip before it) and its code, or NULL and 0.
struct gorun_status {
    const char *function;
    int code;
    int of_nccl; // whether the code is NCCL's
};

// One rank of a group: its GPU, its own stream there, its communicator.
struct gorun_rank {
    const struct gorun_nccl *nccl;
    const struct gorun_runtime *runtime;
    void *comm, *stream;
    int device;
};

// What a step does; see plan.go.
enum gorun_primitive {
    GORUN_ALL_REDUCE,
    GORUN_REDUCE,
    GORUN_BROADCAST,
    GORUN_ALL_GATHER,
    GORUN_REDUCE_SCATTER,
    GORUN_SEND,
    GORUN_RECV,
    GORUN_ALL_TO_ALL,
};

struct gorun_step {
    const void *send;
    void *recv;
    size_t count;
    int what, dtype, op, peer;
};

// cudaMemcpyKind.
enum { GORUN_TO_DEVICE = 1, GORUN_TO_HOST = 2, GORUN_ON_DEVICE = 3 };

// Opening. Both return 0, or -1 with the loader's reason in why. The file that was opened is written to file.
int gorun_open_nccl(const char *path, struct gorun_nccl *library, char *file, char *why, size_t room);
int gorun_open_runtime(const char *path, const char *prefix, struct gorun_runtime *library, char *file, char *why, size_t room);

// Wrappers of single functions, because Go cannot call through pointers.
int gorun_version(const struct gorun_nccl *);
int gorun_unique_id(const struct gorun_nccl *, struct gorun_id *);
const char *gorun_nccl_text(const struct gorun_nccl *, int code);
const char *gorun_nccl_last(const struct gorun_nccl *, void *comm);
const char *gorun_runtime_text(const struct gorun_runtime *, int code);
struct gorun_status gorun_device_count(const struct gorun_runtime *, int *count, int *driver);

// Memory and copies of one GPU; gorun_copy waits for the stream on request. It takes
// addresses as numbers, because cgo would look for pointers around a pointer to Go's memory; the caller pins that.
struct gorun_status gorun_stream(const struct gorun_runtime *, int device, void **stream);
struct gorun_status gorun_alloc(const struct gorun_runtime *, int device, void **at, size_t bytes);
struct gorun_status gorun_free(const struct gorun_runtime *, int device, void *at);
struct gorun_status gorun_copy(const struct gorun_runtime *, int device, void *stream, uintptr_t to, uintptr_t from, size_t bytes, int kind, int wait);
struct gorun_status gorun_synchronize(const struct gorun_runtime *, int device, void *stream);

// A rank's life. gorun_init begins to join and gorun_joined tells whether that is done: 1, or 0 for not yet or failed (see status). gorun_enqueue
// gives the steps to the GPU, and gorun_done looks up to `looks` times whether they are done. gorun_leave ends the communicator, by force or after
// gorun_finalize, and frees the stream.
struct gorun_status gorun_init(struct gorun_rank *, int ranks, int rank, int ids, struct gorun_id *id);
int gorun_joined(struct gorun_rank *, struct gorun_status *);
struct gorun_status gorun_enqueue(struct gorun_rank *, const struct gorun_step *steps, size_t n);
int gorun_done(struct gorun_rank *, int looks, struct gorun_status *);
struct gorun_status gorun_finalize(struct gorun_rank *);
struct gorun_status gorun_leave(struct gorun_rank *, int force);

#endif
