// What the dispatcher (kernels.c) and the code for each instruction set agree on.
#ifndef GORUN_KERNELS_TABLE_H
#define GORUN_KERNELS_TABLE_H

#include "kernels.h"

// One reduction of one type: bytes from to end of out, both multiples of the element's size; all else as reduce takes it.
typedef void reduction(void *out, void *out2, const void *const *in, int n, size_t from, size_t end, int world, int streaming);

// What a type and an operation have: one for any length, and one with less to do before the first element, for few of them, which never streams.
struct kernel {
	reduction *any, *few;
};
enum { FEW_BYTES = 256 };

// All that one instruction set has.
struct kernels {
	const char *name;
	struct kernel reduce[DTYPES][REDOPS]; // NULL: a float has no bitwise reduction
	void (*copy)(void *dst, const void *src, size_t bytes);
	void (*stream)(void *dst, const void *src, size_t bytes);
};

#if defined(__x86_64__)
extern const struct kernels kernels_avx512, kernels_avx2, kernels_plain;
#elif defined(__aarch64__)
extern const struct kernels kernels_neon;
#else
extern const struct kernels kernels_plain;
#endif

#endif
