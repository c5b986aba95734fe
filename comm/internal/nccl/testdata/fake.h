// What the two fakes share: fakecudart.c has it, fakenccl.c uses it.
#ifndef FAKE_H
#define FAKE_H

#include <pthread.h>
#include <stddef.h>

struct fake_stream {
    int device;
    int pending; // operations that are not done
    int error;   // what the next query answers, 0 for nothing special
};

extern pthread_mutex_t fake_lock;          // over everything that both libraries hold
int fake_device(void);                     // this thread's
int fake_owns(const void *at, size_t bytes); // whether that is memory of a GPU; under the lock
void fake_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *fake_setting(const char *variable, const char *otherwise); // an environment variable

#endif
