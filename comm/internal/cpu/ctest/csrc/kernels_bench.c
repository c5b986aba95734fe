// kernels_bench: how fast the kernels are, for each instruction set, beside memcpy. A line a shape: what is read and written, in GB/s (10^9 bytes),
// and nanoseconds a call; the best of several rounds. An argument names one instruction set; "tiny", "near" or "far" as the next one class of sizes.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../kernels.h"

enum { INPUTS = 8, ROUNDS = 7 };
static const size_t longest = 64 << 20;
static unsigned char *in[INPUTS], *out, *out2;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// shape is one thing to measure. op < 0 is the copy of kernels.h, -2 libc's memcpy.
struct shape {
	const char *class, *name;
	int dtype, op, n, twice, streaming;
	size_t bytes;
};

static void once(const struct shape *s)
{
	if (s->op == -2)
		memcpy(out, in[0], s->bytes);
	else if (s->op == -1)
		copy(out, in[0], s->bytes, s->streaming);
	else
		reduce(s->dtype, s->op, out, s->twice ? out2 : NULL, (const void *const *)in, s->n, s->bytes / dtype_size(s->dtype), 8, s->streaming);
	__asm__ volatile("" ::: "memory");
}

static void measure(const struct shape *s)
{
	const size_t target = s->bytes >= 1 << 20 ? 256u << 20 : s->bytes < 1024 ? 1 << 20 : 64 << 20;
	const long times = (long)(target / s->bytes / (size_t)s->n) + 1;
	double best = 1e9;
	for (int round = 0; round < ROUNDS; round++) {
		const double start = now();
		for (long i = 0; i < times; i++)
			once(s);
		const double took = (now() - start) / (double)times;
		best = took < best ? took : best;
	}
	const double moved = (double)s->bytes * (s->n + 1 + s->twice);
	printf("%-7s %-28s %9zu bytes %8.2f GB/s %12.1f ns\n", kernels_name(), s->name, s->bytes, moved / best / 1e9, best * 1e9);
}

static const struct shape shapes[] = {
	{"tiny", "float32 sum of 2", DT_FLOAT32, OP_SUM, 2, 0, 0, 4},
	{"tiny", "float32 sum of 2", DT_FLOAT32, OP_SUM, 2, 0, 0, 56},
	{"tiny", "float64 sum of 2", DT_FLOAT64, OP_SUM, 2, 0, 0, 8},
	{"tiny", "bfloat16 sum of 2", DT_BFLOAT16, OP_SUM, 2, 0, 0, 2},
	{"tiny", "float32 sum of 8", DT_FLOAT32, OP_SUM, 8, 0, 0, 4},
	{"tiny", "float32 sum of 2", DT_FLOAT32, OP_SUM, 2, 0, 0, 252},
	{"near", "memcpy", 0, -2, 1, 0, 0, 32768},
	{"near", "copy", 0, -1, 1, 0, 0, 32768},
	{"near", "float32 sum of 2", DT_FLOAT32, OP_SUM, 2, 0, 0, 32768},
	{"near", "float32 sum of 2, streaming", DT_FLOAT32, OP_SUM, 2, 0, 1, 32768},
	{"near", "float32 sum of 2, two outs", DT_FLOAT32, OP_SUM, 2, 1, 0, 32768},
	{"near", "float32 sum of 4", DT_FLOAT32, OP_SUM, 4, 0, 0, 32768},
	{"near", "float32 sum of 8", DT_FLOAT32, OP_SUM, 8, 0, 0, 32768},
	{"near", "float32 avg of 2 by 8", DT_FLOAT32, OP_AVG, 2, 0, 0, 32768},
	{"near", "float32 max of 2", DT_FLOAT32, OP_MAX, 2, 0, 0, 32768},
	{"near", "float64 sum of 2", DT_FLOAT64, OP_SUM, 2, 0, 0, 32768},
	{"near", "float16 sum of 2", DT_FLOAT16, OP_SUM, 2, 0, 0, 32768},
	{"near", "bfloat16 sum of 2", DT_BFLOAT16, OP_SUM, 2, 0, 0, 32768},
	{"near", "bfloat16 sum of 8", DT_BFLOAT16, OP_SUM, 8, 0, 0, 32768},
	{"near", "int8 max of 2", DT_INT8, OP_MAX, 2, 0, 0, 32768},
	{"near", "int32 prod of 2", DT_INT32, OP_PROD, 2, 0, 0, 32768},
	{"near", "int32 avg of 2 by 8", DT_INT32, OP_AVG, 2, 0, 0, 32768},
	{"near", "int8 avg of 2 by 8", DT_INT8, OP_AVG, 2, 0, 0, 32768},
	{"near", "int64 avg of 2 by 8", DT_INT64, OP_AVG, 2, 0, 0, 32768},
	{"near", "float32 sum of 2", DT_FLOAT32, OP_SUM, 2, 0, 0, 262144},
	{"far", "memcpy", 0, -2, 1, 0, 0, 64 << 20},
	{"far", "copy", 0, -1, 1, 0, 0, 64 << 20},
	{"far", "copy, streaming", 0, -1, 1, 0, 1, 64 << 20},
	{"far", "float32 sum of 2", DT_FLOAT32, OP_SUM, 2, 0, 0, 64 << 20},
	{"far", "float32 sum of 2, streaming", DT_FLOAT32, OP_SUM, 2, 0, 1, 64 << 20},
	{"far", "float32 sum of 8, streaming", DT_FLOAT32, OP_SUM, 8, 0, 1, 64 << 20},
	{"far", "bfloat16 sum of 2, streaming", DT_BFLOAT16, OP_SUM, 2, 0, 1, 64 << 20},
};

// pages returns memory of its own pages, touched, an odd number of lines apart from the others so that no two begin in one set of a cache.
static unsigned char *pages(int number)
{
	unsigned char *p = aligned_alloc(4096, longest + (1 << 20));
	if (!p) {
		perror("kernels_bench: memory");
		exit(1);
	}
	memset(p, 0, longest + (1 << 20)); // zeros: sums stay zero, and no value is slow
	return p + number * 4160;
}

int main(int argc, char **argv)
{
	static const char *const sets[] = {"avx512", "avx2", "neon", "plain"};
	for (int k = 0; k < INPUTS; k++)
		in[k] = pages(k);
	out = pages(INPUTS);
	out2 = pages(INPUTS + 1);
	for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
		if ((argc > 1 && strcmp(argv[1], sets[s]) != 0) || kernels_select(sets[s]) != 0)
			continue;
		for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
			if (argc < 3 || strcmp(argv[2], shapes[i].class) == 0)
				measure(&shapes[i]);
	}
	return 0;
}
