// kernels_test: every reduction and copy of every instruction set that this CPU has against reference.h. Bits are compared, and what lies around
// the outputs must stay as it was.
//
// usage: kernels_test SEED PLACES: the seed of the values, and how many arrangements (count, alignment, aliases, streaming) of each type,
// operation and number of inputs are tried; 0 tries all of them. Exit status 1 with a message at the first difference.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "reference.h"

enum { INPUTS = 8, MOST = 4200, GUARD = 128, ROOM = MOST * 8 + 2 * GUARD };

static const char *const sets[] = {"avx512", "avx2", "neon", "plain"};
static const char *const dtypes[DTYPES] = {"int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16"};
static const char *const ops[REDOPS] = {"sum", "prod", "max", "min", "avg", "band", "bor", "bxor"};
static const size_t counts[] = {
	0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 14, 15, 16, 17, 23, 31, 32, 33, 47, 61, 63, 64, 65, 97, 127, 128, 129, 255, 256, 257, 509, 511, 512, 513,
	1021, 1023, 1024, 1025, 2047, 2048, 2049, 4093, 4095, 4096, 4097,
};
enum { COUNTS = sizeof counts / sizeof *counts };

// xorshift64*: the same numbers everywhere.
static uint64_t state;
static uint64_t any(void)
{
	state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
	return state * UINT64_C(2685821657736338717);
}
static size_t below(size_t limit) { return (size_t)(any() % limit); }

// special values of each kind of float: zeros, subnormals, the largest, infinities, quiet and signalling NaNs with payloads, ties.
static const uint16_t halves[] = {
	0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e01, 0xfe02, 0x7c01, 0xfd55,
	0x3c00, 0x3c01, 0x1000, 0x6800,
};
static const uint16_t brains[] = {
	0, 0x8000, 1, 0x8001, 0x7f, 0x80, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc1, 0xffc2, 0x7f81, 0xffa5,
	0x3f80, 0x3f81, 0x3b80, 0x4380,
};
static const uint32_t singles[] = {
	0, 0x80000000, 1, 0x80000001, 0x7fffff, 0x800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
	0x7fc00001, 0xffc12345, 0x7f800001, 0xffa00007,
};
static const uint64_t doubles[] = {
	0, UINT64_C(1) << 63, 1, UINT64_C(0x7fefffffffffffff), UINT64_C(0x7ff0000000000000), UINT64_C(0xfff0000000000000),
	UINT64_C(0x7ff8000000000001), UINT64_C(0xfff8123456789abc), UINT64_C(0x7ff0000000000001), UINT64_C(0xfff4000000000007),
};
#define PICK(list) list[below(sizeof list / sizeof *list)]

static uint64_t special(int dtype)
{
	switch (dtype) {
	case DT_FLOAT16: return PICK(halves);
	case DT_BFLOAT16: return PICK(brains);
	case DT_FLOAT32: return PICK(singles);
	case DT_FLOAT64: return PICK(doubles);
	default: return below(2) ? below(3) - 1 : UINT64_C(1) << (8 * dtype_size(dtype) - 1);
	}
}

// value draws an element's bits: a quarter special, a quarter any bits, the rest near one another, so that sums and ties of floats happen.
static uint64_t value(int dtype)
{
	const uint64_t mask = ~UINT64_C(0) >> (64 - 8 * dtype_size(dtype));
	const size_t kind = below(4);
	if (kind == 0)
		return special(dtype) & mask;
	if (kind == 1 || !is_float(dtype))
		return any() & mask;
	const double d = ((double)below(8192) - 4096) / (double)(1 + below(2) * 63);
	return dtype == DT_FLOAT64 ? bits_of_double(d) : shrink(dtype, bits_of((float)d)) & mask;
}

// place is one arrangement. alias < n: out is that input; alias2 likewise for out2, which is there where twice is set.
struct place {
	int dtype, op, n, alias, twice, alias2, streaming, world;
	size_t count, shift[INPUTS], out_shift, out2_shift;
};

static unsigned char memory[INPUTS + 2][ROOM] __attribute__((aligned(64)));
static unsigned char original[INPUTS + 2][ROOM], expected[MOST * 8];

static void fail(const struct place *p, const char *what, size_t at)
{
	fprintf(stderr, "%s: %s of %s, n %d, count %zu, out is input %d, out2 %s%d, streaming %d, world %d, out at %zu: %s %zu\n", kernels_name(), ops[p->op],
		dtypes[p->dtype], p->n, p->count, p->alias, p->twice ? "is input " : "NULL, ", p->alias2, p->streaming, p->world, p->out_shift, what, at);
	exit(1);
}

static void fill(const struct place *p)
{
	const size_t size = dtype_size(p->dtype);
	for (int k = 0; k < INPUTS + 2; k++)
		memset(original[k], 0xa5, sizeof original[k]);
	for (size_t i = 0; i < p->count; i++) {
		uint64_t in[INPUTS];
		for (int k = 0; k < p->n; k++) {
			in[k] = value(p->dtype);
			memcpy(original[k] + p->shift[k] + i * size, &in[k], size);
		}
		const uint64_t want = reference(p->dtype, p->op, in, p->n, p->world);
		memcpy(expected + i * size, &want, size);
	}
}

static int nan_at(int dtype, const unsigned char *p)
{
	uint64_t bits = 0;
	memcpy(&bits, p, dtype_size(dtype));
	bits = expand(dtype, bits);
	return dtype == DT_FLOAT64 ? isnan(double_of(bits)) : is_float(dtype) && isnan(float_of((uint32_t)bits));
}

// check compares buffer number k, of which the output begins at byte shift. out is what the first instruction set gave.
static void check(const struct place *p, int k, size_t shift)
{
	const size_t size = dtype_size(p->dtype), end = shift + p->count * size;
	for (size_t i = 0; i < p->count; i++) {
		if (memcmp(memory[k] + shift + i * size, expected + i * size, size) != 0)
			fail(p, "wrong element", i);
	}
	if (memcmp(memory[k], original[k], shift) != 0)
		fail(p, "bytes before an output were changed, in buffer", (size_t)k);
	if (memcmp(memory[k] + end, original[k] + end, ROOM - end) != 0)
		fail(p, "bytes after an output were changed, in buffer", (size_t)k);
}

// run is one reduction by the instruction set now chosen.
static void run(const struct place *p)
{
	const void *in[INPUTS];
	memcpy(memory, original, sizeof memory);
	for (int k = 0; k < p->n; k++)
		in[k] = memory[k] + p->shift[k];
	const int own = p->alias < p->n ? p->alias : INPUTS, own2 = p->alias2 < p->n ? p->alias2 : INPUTS + 1;
	const size_t at = own < INPUTS ? p->shift[own] : p->out_shift, at2 = own2 < INPUTS ? p->shift[own2] : p->out2_shift;
	reduce(p->dtype, p->op, memory[own] + at, p->twice ? memory[own2] + at2 : NULL, in, p->n, p->count, p->world, p->streaming);
	copy_fence();
	for (int k = 0; k < INPUTS + 2; k++) {
		if (k == own)
			check(p, k, at);
		else if (p->twice && k == own2)
			check(p, k, at2);
		else if (memcmp(memory[k], original[k], ROOM) != 0)
			fail(p, "an input was changed, or what is no output:", (size_t)k);
	}
}

// settle takes the CPU's own NaN (Inf - Inf) from the first instruction set, where the reference has one; the others must give the same.
static void settle(const struct place *p)
{
	static unsigned char out[MOST * 8];
	const size_t size = dtype_size(p->dtype);
	const void *in[INPUTS];
	if (!is_float(p->dtype))
		return;
	for (int k = 0; k < p->n; k++)
		in[k] = original[k] + p->shift[k];
	reduce(p->dtype, p->op, out, NULL, in, p->n, p->count, p->world, 0);
	for (size_t i = 0; i < p->count; i++) {
		int given = 0; // an input's NaN has a payload to be kept
		for (int k = 0; k < p->n; k++)
			given |= nan_at(p->dtype, original[k] + p->shift[k] + i * size);
		if (!given && nan_at(p->dtype, expected + i * size) && nan_at(p->dtype, out + i * size))
			memcpy(expected + i * size, out + i * size, size);
	}
}

static void try_place(const struct place *p)
{
	int first = 1;
	fill(p);
	for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
		if (kernels_select(sets[s]) != 0)
			continue;
		if (first)
			settle(p);
		first = 0;
		run(p);
	}
}

// arrange draws what the caller has not set: alignments, aliases, the divisor.
static void arrange(struct place *p)
{
	static const int worlds[] = {1, 2, 3, 7, 8, 64, 1000003, 2147483647};
	const size_t grain = below(3) ? dtype_size(p->dtype) : 1; // a third at odd addresses
	for (int k = 0; k < p->n; k++)
		p->shift[k] = GUARD / 2 + grain * below(64 / grain);
	p->out_shift = GUARD / 2 + grain * below(64 / grain);
	p->out2_shift = GUARD / 2 + grain * below(64 / grain);
	p->world = PICK(worlds);
	p->alias = below(2) ? INPUTS : (int)below((size_t)p->n);
	p->alias2 = below(2) ? INPUTS : (int)below((size_t)p->n);
	if (p->alias2 < INPUTS && p->alias2 == p->alias)
		p->alias2 = INPUTS;
}

// reductions tries some places of one type and operation for each n, or all counts in all ways.
static void reductions(int dtype, int op, long places)
{
	for (int n = 1; n <= INPUTS; n++) {
		struct place p = {.dtype = dtype, .op = op, .n = n};
		for (long i = 0; i < (places ? places : 4 * COUNTS); i++) {
			p.count = places ? counts[below(below(4) ? COUNTS - 9 : COUNTS)] : counts[i % COUNTS];
			p.twice = places ? below(3) == 0 : (int)(i / COUNTS) & 1;
			p.streaming = places ? (int)below(2) : (int)(i / COUNTS / 2) & 1;
			arrange(&p);
			try_place(&p);
		}
	}
}

// round_trips sends all 65536 values of a 16-bit float through its accumulator: nothing changes but signalling NaNs, which become quiet.
static void round_trips(int dtype)
{
	static uint16_t in[65536], out[65536];
	const void *inputs[1] = {in};
	const unsigned infinity = dtype == DT_FLOAT16 ? 0x7c00 : 0x7f80, quiet = dtype == DT_FLOAT16 ? 0x200 : 0x40;
	for (unsigned i = 0; i < 65536; i++)
		in[i] = (uint16_t)i;
	reduce(dtype, OP_AVG, out, NULL, inputs, 1, 65536, 1, 0);
	for (unsigned i = 0; i < 65536; i++) {
		const unsigned want = (i & 0x7fff) > infinity ? i | quiet : i;
		if (out[i] != want) {
			fprintf(stderr, "%s: %s %#x came back as %#x, want %#x\n", kernels_name(), dtypes[dtype], i, out[i], want);
			exit(1);
		}
	}
}

// roundings adds to every 16-bit float half, a bit less and a bit more than half of its last place, and subtracts it: ties and their neighbours.
static void roundings(int dtype)
{
	static uint16_t in[2][65536], out[65536];
	const void *inputs[2] = {in[0], in[1]};
	const int bits = dtype == DT_FLOAT16 ? 5 : 8, mantissa = 15 - bits;
	for (int change = -3; change <= 3; change++) {
		for (unsigned i = 0; i < 65536; i++) {
			const unsigned exponent = (i & 0x7fff) >> mantissa;
			const unsigned half = exponent > (unsigned)mantissa + 1 ? (exponent - (unsigned)mantissa - 1) << mantissa : 1;
			in[0][i] = (uint16_t)i;
			in[1][i] = (uint16_t)((half + (unsigned)abs(change) - 1) | (change < 0 ? 0x8000 : 0));
		}
		reduce(dtype, OP_SUM, out, NULL, inputs, 2, 65536, 1, 0);
		for (unsigned i = 0; i < 65536; i++) {
			const uint64_t pair[2] = {in[0][i], in[1][i]}, want = reference(dtype, OP_SUM, pair, 2, 1);
			if (out[i] != want && !(nan_at(dtype, (unsigned char *)&out[i]) && (i & 0x7fff) == (unsigned)((1 << bits) - 1) << mantissa)) {
				fprintf(stderr, "%s: %s %#x + %#x is %#x, want %#" PRIx64 "\n", kernels_name(), dtypes[dtype], i, in[1][i], out[i], want);
				exit(1);
			}
		}
	}
}

// copies tries lengths and alignments of both kinds of copy.
static void copies(void)
{
	static const size_t lengths[] = {0, 1, 63, 64, 65, 255, 1000, 2047, 2048, 2049, 2111, 4096, 8191, 16384, 30011, 32768};
	for (size_t i = 0; i < 200; i++) {
		const size_t bytes = lengths[i % (sizeof lengths / sizeof *lengths)], from = below(64), to = GUARD / 2 + below(64);
		for (size_t b = 0; b < bytes; b++)
			memory[0][from + b] = (unsigned char)any();
		memset(memory[1], 0xa5, ROOM);
		memset(original[1], 0xa5, ROOM);
		memcpy(original[1] + to, memory[0] + from, bytes);
		copy(memory[1] + to, memory[0] + from, bytes, (int)below(2));
		copy_fence();
		if (memcmp(memory[1], original[1], ROOM) != 0) {
			fprintf(stderr, "%s: copy of %zu bytes from %zu to %zu: wrong bytes\n", kernels_name(), bytes, from, to);
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: kernels_test SEED PLACES\n");
		return 2;
	}
	state = strtoull(argv[1], NULL, 10) * 2 + 1;
	const long places = strtol(argv[2], NULL, 10);
	printf("%s", kernels_name());
	if (kernels_select("abacus") != -1) {
		fprintf(stderr, "kernels_select(\"abacus\") has no error\n");
		return 1;
	}
	for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
		if (kernels_select(sets[s]) != 0)
			continue;
		printf(" %s", kernels_name());
		copies();
		round_trips(DT_FLOAT16), round_trips(DT_BFLOAT16);
		roundings(DT_FLOAT16), roundings(DT_BFLOAT16);
	}
	for (int dtype = 0; dtype < DTYPES; dtype++)
		for (int op = 0; op < REDOPS; op++)
			if (!is_float(dtype) || op < OP_BAND)
				reductions(dtype, op, places);
	printf(": all the same\n");
	return 0;
}
