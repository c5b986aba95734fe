// Two ranks, a thread each, live once through library.c's functions on the fakes: argv is the runtime's file and NCCL's. They print the sum of
// their numbers.
#include "library.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct gorun_nccl nccl;
static struct gorun_runtime runtime;
static struct gorun_id id;
static int results[2];

static void must(struct gorun_status s) {
    if (s.function == NULL) return;
    printf("%s: %s\n", s.function, s.of_nccl ? gorun_nccl_text(&nccl, s.code) : gorun_runtime_text(&runtime, s.code));
    exit(1);
}

static void until(int (*done)(struct gorun_rank *, struct gorun_status *), struct gorun_rank *r) {
    struct gorun_status status;
    while (!done(r, &status)) must(status);
}

static int ended(struct gorun_rank *r, struct gorun_status *status) { return gorun_done(r, 100, status); }

static void *live(void *number) {
    int rank = *(int *)number, value = rank + 1;
    struct gorun_rank r = {&nccl, &runtime, NULL, NULL, rank};
    must(gorun_init(&r, 2, rank, 1, &id));
    until(gorun_joined, &r);
    void *at;
    must(gorun_alloc(&runtime, rank, &at, sizeof value));
    must(gorun_copy(&runtime, rank, r.stream, (uintptr_t)at, (uintptr_t)&value, sizeof value, GORUN_TO_DEVICE, 0));
    struct gorun_step steps[] = {{at, at, 1, GORUN_ALL_REDUCE, 2, 0, 0}, {at, at, 1, GORUN_BROADCAST, 2, 0, 1}};
    must(gorun_enqueue(&r, &steps[0], 1));
    until(ended, &r);
    must(gorun_enqueue(&r, steps + 1, 1));
    until(ended, &r);
    must(gorun_copy(&runtime, rank, r.stream, (uintptr_t)&results[rank], (uintptr_t)at, sizeof value, GORUN_TO_HOST, 1));
    must(gorun_synchronize(&runtime, rank, r.stream));
    must(gorun_free(&runtime, rank, at));
    must(gorun_finalize(&r));
    until(gorun_joined, &r);
    must(gorun_leave(&r, 0));
    return NULL;
}

int main(int argc, char **argv) {
    char file[256], why[256];
    int count, driver, ranks[] = {0, 1};
    if (argc != 3 || gorun_open_runtime("/nowhere/libcudart.so", "cuda", &runtime, file, why, sizeof file) == 0) return 2;
    if (gorun_open_runtime(argv[1], "cuda", &runtime, file, why, sizeof file) != 0 || gorun_open_nccl(argv[2], &nccl, file, why, sizeof file) != 0) {
        printf("%s\n", why);
        return 2;
    }
    must(gorun_device_count(&runtime, &count, &driver));
    if (nccl.missing != NULL || runtime.missing != NULL || count < 2 || gorun_version(&nccl) < 21400 || gorun_unique_id(&nccl, &id) != 0) return 2;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, live, &ranks[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("%d %d\n", results[0], results[1]);
    return 0;
}
