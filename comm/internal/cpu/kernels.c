// Which instructions are used is decided here, once, before main.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels_table.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

static const struct kernels *active;

// usable lists what this CPU has, the best first, and ends with NULL.
static void usable(const struct kernels *list[4])
{
#if defined(__x86_64__)
	// CPUID and XGETBV say what the CPU has and what the kernel keeps. The compiler's own __builtin_cpu_supports needs its library.
	const unsigned ymm = 0x06, zmm = 0xe6, avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
	unsigned a, b = 0, c = 0, d, kept = 0;
	if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE))
		__asm__("xgetbv" : "=a"(kept), "=d"(d) : "c"(0));
	int f16c = (c & bit_F16C) && (kept & ymm) == ymm;
	b = 0;
	__get_cpuid_count(7, 0, &a, &b, &c, &d);
	if (f16c && (kept & zmm) == zmm && (b & avx512) == avx512)
		*list++ = &kernels_avx512;
	if (f16c && (b & bit_AVX2))
		*list++ = &kernels_avx2;
	*list++ = &kernels_plain;
#elif defined(__aarch64__)
	*list++ = &kernels_neon;
#else
	*list++ = &kernels_plain;
#endif
	*list = NULL;
}

__attribute__((constructor)) static void kernels_choose(void)
{
	const struct kernels *list[4];
	usable(list);
	active = list[0];
}

const char *kernels_name(void) { return active->name; }

int kernels_select(const char *name)
{
	const struct kernels *list[4];
	usable(list);
	for (const struct kernels **k = list; *k; k++) {
		if (strcmp((*k)->name, name) == 0) {
			active = *k;
			return 0;
		}
	}
	return -1;
}

static const unsigned char sizes[DTYPES] = {
	[DT_INT8] = 1, [DT_UINT8] = 1, [DT_INT32] = 4, [DT_UINT32] = 4, [DT_INT64] = 8, [DT_UINT64] = 8,
	[DT_FLOAT16] = 2, [DT_FLOAT32] = 4, [DT_FLOAT64] = 8, [DT_BFLOAT16] = 2,
};

size_t dtype_size(int dtype) { return sizes[dtype]; }

void reduce(int dtype, int op, void *out, void *out2, const void *const *in, int n, size_t count, int world, int streaming)
{
	const size_t bytes = count * sizes[dtype];
	if (n > 1 || op == OP_AVG) {
		const struct kernel *k = &active->reduce[dtype][op];
		(bytes < FEW_BYTES ? k->few : k->any)(out, out2, in, n, 0, bytes, world, streaming);
		return;
	}
	if (out != in[0])
		copy(out, in[0], bytes, streaming);
	if (out2 && out2 != in[0])
		copy(out2, in[0], bytes, 0);
}

void copy(void *dst, const void *src, size_t bytes, int streaming)
{
	enum { SHORT = 2048 }; // below that libc's memcpy is as good or better
	if (bytes < SHORT) {
		if (bytes > 0)
			memcpy(dst, src, bytes);
	} else if (streaming) {
		active->stream(dst, src, bytes);
	} else {
		active->copy(dst, src, bytes);
	}
}

void copy_fence(void)
{
#if defined(__x86_64__)
	_mm_sfence();
#endif
	__atomic_thread_fence(__ATOMIC_RELEASE);
}
