// The kernels of one instruction set: KERNELS is its name, WIDTH the bytes of its vectors, HAVE_AVX says that the three-operand instructions and
// F16C are there. Included once by each kernels_NAME.c. Every instruction set gives the same bits: nothing is contracted (a*b+c stays two
// roundings) or reordered.
#include <stdint.h>
#include <string.h>

#include "kernels_table.h"

#ifdef __clang__
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

#define INLINE static inline __attribute__((always_inline, unused))
#define OUTLINE static __attribute__((noinline, unused)) // for what is rare and long
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STRING_(a) #a
#define STRING(a) STRING_(a)

// STEP is the bytes of memory that fill a vector: 16-bit floats become float32 there.
#define STEP(t, width) ((t) == DT_FLOAT16 || (t) == DT_BFLOAT16 ? (width) / 2 : (width))

// What OP_AVG divides by, in each form that is needed.
struct divisor {
	int world, power_of_two;
	float f32, reciprocal_f32;
	double f64, reciprocal_f64;
};

// 16 bytes, for what is too short for a whole vector.
#pragma push_macro("WIDTH")
#undef WIDTH
#define WIDTH 16
#define V(name) name##_short
#include "kernels_vector.h"
#undef V
#pragma pop_macro("WIDTH")
#define V(name) name##_whole
#include "kernels_vector.h"
#undef V

enum { LINE = 64 };

// divisor_of prepares OP_AVG; the other operations look at nothing of it.
INLINE struct divisor divisor_of(int op, int world)
{
	if (op != OP_AVG)
		return (struct divisor){0};
	return (struct divisor){world, (world & (world - 1)) == 0, (float)world, 1.0f / (float)world, world, 1.0 / world};
}

// job is one call: what reduction's arguments say, n apart, which is a constant where it is 2.
struct job {
	unsigned char *out, *out2;
	const unsigned char *const *in;
	struct divisor by;
};

// four reduces four vectors at a time from byte i on while they fit before end, and returns where it stopped. All inputs are read once and the
// output written once, with the accumulators in registers, whatever n is. Prefetching by software was tried (512 to 4096 bytes ahead): the same
// for two inputs, slower for eight.
INLINE size_t four(int t, int op, const struct job *j, int n, size_t i, size_t end, int streaming)
{
	const size_t step = STEP(t, WIDTH);
	for (; end - i >= 4 * step; i += 4 * step) {
		u8_whole a, b, c, d, e, f, g, h;
		load_pair_whole(t, j->in[0] + i, &a, &b), load_pair_whole(t, j->in[0] + i + 2 * step, &c, &d);
		for (int k = 1; k < n; k++) {
			load_pair_whole(t, j->in[k] + i, &e, &f), load_pair_whole(t, j->in[k] + i + 2 * step, &g, &h);
			a = apply_whole(t, op, a, e), b = apply_whole(t, op, b, f), c = apply_whole(t, op, c, g), d = apply_whole(t, op, d, h);
		}
		a = finish_whole(t, op, a, &j->by), b = finish_whole(t, op, b, &j->by);
		c = finish_whole(t, op, c, &j->by), d = finish_whole(t, op, d, &j->by);
		store_pair_whole(t, j->out + i, a, b, streaming), store_pair_whole(t, j->out + i + 2 * step, c, d, streaming);
		if (j->out2)
			store_pair_whole(t, j->out2 + i, a, b, 0), store_pair_whole(t, j->out2 + i + 2 * step, c, d, 0);
	}
	return i;
}

// load_piece and store_piece move bytes <= 16, a constant; what is missing is zero.
INLINE u8_short load_piece(int t, const unsigned char *p, size_t bytes)
{
	if (bytes == STEP(t, 16))
		return load_short(t, p);
	u64_short words = {0};
	uint64_t first = 0;
	memcpy(&first, p, bytes);
	words[0] = first;
	return load_short(t, &words);
}

INLINE void store_piece(int t, unsigned char *p, u8_short a, size_t bytes)
{
	u64_short words;
	store_short(t, bytes == STEP(t, 16) ? (void *)p : &words, a, 0);
	if (bytes == STEP(t, 16))
		return;
	const uint64_t first = words[0];
	memcpy(p, &first, bytes);
}

// piece reduces a constant number of bytes, 16 at most.
INLINE size_t piece(int t, int op, const struct job *j, int n, size_t i, size_t bytes)
{
	u8_short a = load_piece(t, j->in[0] + i, bytes);
	for (int k = 1; k < n; k++)
		a = apply_short(t, op, a, load_piece(t, j->in[k] + i, bytes));
	a = finish_short(t, op, a, &j->by);
	store_piece(t, j->out + i, a, bytes);
	if (j->out2)
		store_piece(t, j->out2 + i, a, bytes);
	return i + bytes;
}

// shorts reduces from byte i to end by 16 bytes, then by what powers of two are left.
INLINE void shorts(int t, int op, size_t size, const struct job *j, int n, size_t i, size_t end)
{
	const size_t step = STEP(t, 16);
	while (end - i >= step)
		i = piece(t, op, j, n, i, step);
	if (step > 8 && (end - i) & 8)
		i = piece(t, op, j, n, i, 8);
	if (size <= 4 && (end - i) & 4)
		i = piece(t, op, j, n, i, 4);
	if (size <= 2 && (end - i) & 2)
		i = piece(t, op, j, n, i, 2);
	if (size <= 1 && (end - i) & 1)
		piece(t, op, j, n, i, 1);
}

// peel prepares streaming, which needs whole lines: it reduces the elements before the first one. It returns 0, and does nothing, where the
// stores shall be common ones: for short outputs and those not aligned to their elements (no line begins with one).
INLINE size_t peel(size_t size, reduction *few, const struct job *j, int n, size_t bytes, int world)
{
	const size_t head = LINE - (size_t)j->out % LINE;
	if (bytes < 16 * LINE || head % size != 0)
		return 0;
	few(j->out, j->out2, (const void *const *)j->in, n, 0, head, world, 0);
	return head;
}

INLINE void any(int t, int op, size_t size, reduction *few, struct job j, int n, size_t end, int world, int streaming)
{
	const unsigned char *const *in = j.in, *const two[2] = {in[0], in[n > 1]};
	const size_t head = streaming ? peel(size, few, &j, n, end, world) : 0;
	size_t from;
	if (n == 2 && !j.out2) {
		j.in = two;
		j.out2 = NULL; // for the compiler
		from = head ? four(t, op, &j, 2, head, end, 1) : four(t, op, &j, 2, 0, end, 0);
	} else {
		from = four(t, op, &j, n, head, end, head > 0);
	}
	if (from < end)
		few(j.out, j.out2, (const void *const *)in, n, from, end, world, 0);
}

#define JOB(op) {out, out2, (const unsigned char *const *)in, divisor_of(op, world)}
#define REDUCTION(type, t, op) \
	static void type##_##op##_few(void *out, void *out2, const void *const *in, int n, size_t from, size_t end, int world, int streaming) \
	{ \
		const struct job j = JOB(OP_##op); \
		(void)streaming; \
		shorts(t, OP_##op, sizeof(type), &j, n, from, end); \
	} \
	static void type##_##op(void *out, void *out2, const void *const *in, int n, size_t from, size_t end, int world, int streaming) \
	{ \
		(void)from; /* 0: only few begins elsewhere */ \
		any(t, OP_##op, sizeof(type), type##_##op##_few, (struct job)JOB(OP_##op), n, end, world, streaming); \
	}
#define ARITHMETIC(type, t) REDUCTION(type, t, SUM) REDUCTION(type, t, PROD) REDUCTION(type, t, MAX) REDUCTION(type, t, MIN) REDUCTION(type, t, AVG)
// Signed and unsigned sums, products and bits are the same.
#define SIGNED(type, t) REDUCTION(type, t, MAX) REDUCTION(type, t, MIN) REDUCTION(type, t, AVG)
typedef uint16_t float16, bfloat16;
SIGNED(int8_t, DT_INT8)
SIGNED(int32_t, DT_INT32)
SIGNED(int64_t, DT_INT64)
ARITHMETIC(uint8_t, DT_UINT8)
ARITHMETIC(uint32_t, DT_UINT32)
ARITHMETIC(uint64_t, DT_UINT64)
ARITHMETIC(float16, DT_FLOAT16)
ARITHMETIC(float, DT_FLOAT32)
ARITHMETIC(double, DT_FLOAT64)
ARITHMETIC(bfloat16, DT_BFLOAT16)
REDUCTION(uint8_t, DT_UINT8, BAND)
REDUCTION(uint8_t, DT_UINT8, BOR)
REDUCTION(uint8_t, DT_UINT8, BXOR)

// copy moves bytes without `rep movsb`, which is slow while another core has just read the destination.
static void copy_near(void *dst, const void *src, size_t bytes)
{
	unsigned char *to = dst;
	const unsigned char *from = src;
	for (; bytes >= 4 * WIDTH; bytes -= 4 * WIDTH, from += 4 * WIDTH, to += 4 * WIDTH) {
		u8_whole a = load_whole(DT_UINT8, from), b = load_whole(DT_UINT8, from + WIDTH);
		u8_whole c = load_whole(DT_UINT8, from + 2 * WIDTH), d = load_whole(DT_UINT8, from + 3 * WIDTH);
		store_whole(DT_UINT8, to, a, 0), store_whole(DT_UINT8, to + WIDTH, b, 0);
		store_whole(DT_UINT8, to + 2 * WIDTH, c, 0), store_whole(DT_UINT8, to + 3 * WIDTH, d, 0);
	}
	memcpy(to, from, bytes);
}

// copy_past writes whole lines past the caches.
static void copy_past(void *dst, const void *src, size_t bytes)
{
	const size_t head = -(size_t)dst % LINE;
	if (bytes < head) {
		memcpy(dst, src, bytes);
		return;
	}
	memcpy(dst, src, head);
	unsigned char *to = (unsigned char *)dst + head;
	const unsigned char *from = (const unsigned char *)src + head;
	for (bytes -= head; bytes >= LINE; bytes -= LINE, from += LINE, to += LINE)
		for (size_t i = 0; i < LINE; i += WIDTH)
			store_whole(DT_UINT8, to + i, load_whole(DT_UINT8, from + i), 1);
	memcpy(to, from, bytes);
}

#define KERNEL(type, op) [OP_##op] = {type##_##op, type##_##op##_few}
#define ROW_OF(own, same) KERNEL(same, SUM), KERNEL(same, PROD), KERNEL(own, MAX), KERNEL(own, MIN), KERNEL(own, AVG)
#define FLOATS(type) {ROW_OF(type, type)}
#define INTEGERS(own, same) {ROW_OF(own, same), KERNEL(uint8_t, BAND), KERNEL(uint8_t, BOR), KERNEL(uint8_t, BXOR)}
const struct kernels JOIN(kernels_, KERNELS) = {
	.name = STRING(KERNELS),
	.reduce = {
		[DT_INT8] = INTEGERS(int8_t, uint8_t), [DT_UINT8] = INTEGERS(uint8_t, uint8_t),
		[DT_INT32] = INTEGERS(int32_t, uint32_t), [DT_UINT32] = INTEGERS(uint32_t, uint32_t),
		[DT_INT64] = INTEGERS(int64_t, uint64_t), [DT_UINT64] = INTEGERS(uint64_t, uint64_t),
		[DT_FLOAT16] = FLOATS(float16), [DT_FLOAT32] = FLOATS(float),
		[DT_FLOAT64] = FLOATS(double), [DT_BFLOAT16] = FLOATS(bfloat16),
	},
	.copy = copy_near,
	.stream = copy_past,
};
