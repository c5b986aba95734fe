// The kernels in 512-bit vectors, for x86-64 CPUs with AVX-512 F, BW, DQ and VL.
#if defined(__x86_64__)
#include <immintrin.h>

#define KERNELS avx512
#define WIDTH 64
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,f16c")
#endif
#define HAVE_AVX 1
#include "kernels_template.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
