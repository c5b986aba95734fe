// The kernels in 128-bit vectors, with what every x86-64 CPU has (SSE2), and for CPUs that the other files do not know.
#if !defined(__aarch64__)
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define KERNELS plain
#define WIDTH 16
#include "kernels_template.h"
#endif
