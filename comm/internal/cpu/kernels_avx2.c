// The kernels in 256-bit vectors, for x86-64 CPUs with AVX2 and F16C.
#if defined(__x86_64__)
#include <immintrin.h>

#define KERNELS avx2
#define WIDTH 32
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif
#define HAVE_AVX 1
#include "kernels_template.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
