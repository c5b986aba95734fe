// Reductions and copies: the arithmetic of the CPU back end. Pure functions; which instructions they use is chosen once, at run time.
#ifndef GORUN_KERNELS_H
#define GORUN_KERNELS_H

#include "names.h"

#include <stddef.h>

// Element types and reductions, with the numbers of package backend (and so of nccl.h).
enum dtype {
	DT_INT8, DT_UINT8, DT_INT32, DT_UINT32, DT_INT64, DT_UINT64, DT_FLOAT16, DT_FLOAT32, DT_FLOAT64, DT_BFLOAT16, DTYPES
};
enum redop { OP_SUM, OP_PROD, OP_MAX, OP_MIN, OP_AVG, OP_BAND, OP_BOR, OP_BXOR, REDOPS };

// dtype_size returns the bytes of one element.
size_t dtype_size(int dtype);

// reduce computes out[i] = in[0][i] op in[1][i] op … op in[n-1][i], always in this order, n >= 1, and the same into out2 unless it is NULL.
// OP_AVG divides the sum by world: floats in their accumulation type, integers truncating towards zero. Float16 and BFloat16 are accumulated in
// float32 and rounded once, to nearest even; NaN stays NaN. OP_MIN and OP_MAX give NaN where any input is NaN. Integer sums and
// products wrap. out (or out2) may be one of the inputs; other overlaps are not allowed. Pointers need no alignment.
// streaming != 0: out (not out2) is written past the caches; the caller fences (copy_fence) before it tells anybody. It is a hint: outputs below
// 1 KiB, outputs not aligned to their elements, and CPUs other than x86-64 get common stores.
//
// Every instruction set gives the same bits. In sums and products the first operand that is a NaN stays, made quiet (on arm64 a signalling one
// goes first); where no operand is a NaN (Inf - Inf) it is the CPU's own. OP_MIN and OP_MAX keep the first NaN as it is, and the first of 0 and -0.
// One input alone (n == 1) is copied, unless it is divided. The thread must round to nearest and keep subnormals, as every thread does at first.
// Caller's duty, unchecked: OP_BAND, OP_BOR and OP_BXOR with integers only, n and world >= 1, dtype and op of the lists above.
void reduce(int dtype, int op, void *out, void *out2, const void *const *in, int n, size_t count, int world, int streaming);

// copy moves bytes between buffers that do not overlap; streaming as above. Short copies are libc's; long ones are vectors, never
// `rep movsb`, which is slower into memory that another core has just read (16 KiB and more, AMD Zen 4: 4 to 10 GB/s against 6 to 15).
void copy(void *dst, const void *src, size_t bytes, int streaming);

// copy_fence orders streaming stores before later stores.
void copy_fence(void);

// kernels_name says which instructions are used: "avx512", "avx2", "neon" or "plain"; kernels_select chooses by that name, and returns -1 where
// the CPU lacks them. It is for tests and for measuring; not to be called while reductions run.
const char *kernels_name(void);
int kernels_select(const char *name);

#endif
