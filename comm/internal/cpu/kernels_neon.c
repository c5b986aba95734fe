// The kernels in 128-bit vectors of arm64, where every CPU has them.
#if defined(__aarch64__)
#include <arm_neon.h>

#define KERNELS neon
#define WIDTH 16
#include "kernels_template.h"
#endif
