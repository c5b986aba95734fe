// A CUDA runtime (with -DPREFIX=hip one of HIP) whose GPUs are the host: memory is malloc's, a stream is a number of operations that are not done.
// FAKE_LOG names a file that gets a line per call; FAKE_CUDA_DEVICES, FAKE_CUDA_DRIVER and FAKE_CUDA_FAIL=Function:code change its answers.
#include "fake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PREFIX
#define PREFIX cuda
#endif
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define FN(name) JOIN(PREFIX, name)

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INSUFFICIENT_DRIVER = 35, NO_DEVICE = 100, INVALID_DEVICE = 101, NOT_READY = 600 };

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int current;

static struct block {
    struct block *next;
    char *at;
    size_t bytes;
    int device;
} *blocks;

const char *fake_setting(const char *variable, const char *otherwise) {
    const char *value = getenv(variable);
    return value == NULL || *value == '\0' ? otherwise : value;
}

int fake_device(void) { return current; }

void fake_log(const char *format, ...) {
    const char *path = fake_setting("FAKE_LOG", NULL);
    if (path == NULL) return;
    pthread_mutex_lock(&log_lock);
    FILE *file = fopen(path, "a");
    if (file != NULL) {
        va_list arguments;
        va_start(arguments, format);
        vfprintf(file, format, arguments);
        va_end(arguments);
        fputc('\n', file);
        fclose(file);
    }
    pthread_mutex_unlock(&log_lock);
}

int fake_owns(const void *at, size_t bytes) {
    for (struct block *b = blocks; b != NULL; b = b->next)
        if ((const char *)at >= b->at && (const char *)at + bytes <= b->at + b->bytes) return 1;
    return 0;
}

// failure is the code that a function shall fail with, 0 for none.
static int failure(const char *function) {
    const char *fail = fake_setting("FAKE_CUDA_FAIL", "");
    size_t n = strlen(function);
    return strncmp(fail, function, n) == 0 && fail[n] == ':' ? atoi(fail + n + 1) : SUCCESS;
}

static int devices(void) { return atoi(fake_setting("FAKE_CUDA_DEVICES", "8")); }

int FN(DriverGetVersion)(int *version) {
    *version = atoi(fake_setting("FAKE_CUDA_DRIVER", "13000"));
    return failure("DriverGetVersion");
}

int FN(GetDeviceCount)(int *count) {
    if (atoi(fake_setting("FAKE_CUDA_DRIVER", "13000")) == 0) return INSUFFICIENT_DRIVER;
    *count = devices();
    return *count == 0 ? NO_DEVICE : failure("GetDeviceCount");
}

int FN(SetDevice)(int device) {
    if (device < 0 || device >= devices()) return INVALID_DEVICE;
    current = device;
    return failure("SetDevice");
}

int FN(StreamCreateWithFlags)(void **stream, unsigned flags) {
    struct fake_stream *made = calloc(1, sizeof *made);
    made->device = current;
    *stream = made;
    fake_log("gpu %d StreamCreateWithFlags %u", current, flags);
    return failure("StreamCreateWithFlags");
}

int FN(StreamDestroy)(void *stream) {
    struct fake_stream *s = stream;
    fake_log("gpu %d StreamDestroy pending %d", s->device, s->pending);
    free(s);
    return failure("StreamDestroy");
}

int FN(StreamQuery)(void *stream) {
    struct fake_stream *s = stream;
    pthread_mutex_lock(&fake_lock);
    int code = s->device != current ? INVALID_DEVICE : s->error != 0 ? s->error : s->pending > 0 ? NOT_READY : SUCCESS;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int FN(StreamSynchronize)(void *stream) {
    fake_log("gpu %d StreamSynchronize", ((struct fake_stream *)stream)->device);
    return failure("StreamSynchronize");
}

int FN(Malloc)(void **at, size_t bytes) {
    int fail = failure("Malloc");
    fake_log("gpu %d Malloc %zu", current, bytes);
    if (fail != SUCCESS) return fail;
    struct block *b = malloc(sizeof *b);
    *b = (struct block){NULL, malloc(bytes), bytes, current};
    memset(b->at, 0xa5, bytes);
    pthread_mutex_lock(&fake_lock);
    b->next = blocks;
    blocks = b;
    pthread_mutex_unlock(&fake_lock);
    *at = b->at;
    return SUCCESS;
}

int FN(Free)(void *at) {
    fake_log("gpu %d Free", current);
    pthread_mutex_lock(&fake_lock);
    struct block **link = &blocks, *found;
    while (*link != NULL && (*link)->at != at) link = &(*link)->next;
    found = *link;
    if (found != NULL) *link = found->next;
    pthread_mutex_unlock(&fake_lock);
    if (found == NULL) return INVALID_VALUE;
    free(found->at);
    free(found);
    return failure("Free");
}

int FN(MemcpyAsync)(void *to, const void *from, size_t bytes, int kind, void *stream) {
    fake_log("gpu %d MemcpyAsync %zu kind %d", ((struct fake_stream *)stream)->device, bytes, kind);
    pthread_mutex_lock(&fake_lock);
    int to_gpu = fake_owns(to, bytes), from_gpu = fake_owns(from, bytes);
    pthread_mutex_unlock(&fake_lock);
    if (to_gpu != (kind != 2) || from_gpu != (kind != 1)) return INVALID_VALUE;
    memmove(to, from, bytes);
    return failure("MemcpyAsync");
}

const char *FN(GetErrorString)(int code) {
    switch (code) {
    case SUCCESS: return "no error";
    case INVALID_VALUE: return "invalid argument";
    case OUT_OF_MEMORY: return "out of memory";
    case INSUFFICIENT_DRIVER: return "CUDA driver version is insufficient for CUDA runtime version";
    case NO_DEVICE: return "no CUDA-capable device is detected";
    case INVALID_DEVICE: return "invalid device ordinal";
    default: return "an illegal memory access was encountered";
    }
}

int FN(GetLastError)(void) { return SUCCESS; }
