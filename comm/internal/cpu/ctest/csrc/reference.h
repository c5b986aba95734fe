// The reductions again, one element at a time and in the most obvious way: what the kernels are compared with.
#ifndef GORUN_KERNELS_REFERENCE_H
#define GORUN_KERNELS_REFERENCE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../../kernels.h"

// decode16 is the value of a 16-bit float with that number of exponent bits; a NaN is handled by the callers.
static double decode16(unsigned h, int exponent_bits)
{
	const int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
	const int exponent = (int)(h >> mantissa_bits) & ((1 << exponent_bits) - 1);
	const unsigned mantissa = h & ((1u << mantissa_bits) - 1);
	double v;
	if (exponent == (1 << exponent_bits) - 1)
		v = mantissa ? NAN : INFINITY;
	else if (exponent == 0)
		v = ldexp(mantissa, 1 - bias - mantissa_bits);
	else
		v = ldexp(mantissa + (1u << mantissa_bits), exponent - bias - mantissa_bits);
	return h & 0x8000 ? -v : v;
}

// encode16 rounds to nearest even: the value in units of its last place, rounded by nearbyint, carries into the exponent by itself.
static unsigned encode16(double v, int exponent_bits)
{
	const int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1, least = 1 - bias;
	const unsigned sign = signbit(v) ? 0x8000 : 0, infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
	v = fabs(v);
	if (v == 0)
		return sign;
	if (v > ldexp(1, bias + 1))
		return sign | infinity;
	const int exponent = ilogb(v) < least ? least : ilogb(v);
	const unsigned bits = ((unsigned)(exponent - least) << mantissa_bits) + (unsigned)nearbyint(ldexp(v, mantissa_bits - exponent));
	return sign | (bits > infinity ? infinity : bits);
}

static float float_of(uint32_t bits)
{
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}
static uint32_t bits_of(float f)
{
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	return bits;
}
static double double_of(uint64_t bits)
{
	double d;
	memcpy(&d, &bits, sizeof d);
	return d;
}
static uint64_t bits_of_double(double d)
{
	uint64_t bits;
	memcpy(&bits, &d, sizeof bits);
	return bits;
}

// widen16 and narrow16 add the NaNs: quiet, with the upper bits of the payload.
static uint32_t widen16(unsigned h, int exponent_bits)
{
	const double v = decode16(h, exponent_bits);
	if (!isnan(v))
		return bits_of((float)v);
	const uint32_t quiet = exponent_bits == 5 ? 0x400000 : 0; // a bfloat16 is the upper half of a float32
	return (h & 0x8000u) << 16 | 0x7f800000 | (h & ((1u << (15 - exponent_bits)) - 1)) << (8 + exponent_bits) | quiet;
}
static unsigned narrow16(uint32_t bits, int exponent_bits)
{
	const int mantissa_bits = 15 - exponent_bits;
	const float f = float_of(bits);
	if (!isnan(f))
		return encode16(f, exponent_bits);
	return (bits >> 16 & 0x8000) | ((1u << exponent_bits) - 1) << mantissa_bits | (bits & 0x7fffff) >> (23 - mantissa_bits) | 1u << (mantissa_bits - 1);
}

// Which NaN two operands give, where one is a NaN: the first that is one, made quiet; in arm64 a signalling one goes first.
#if defined(__aarch64__)
enum { SIGNALLING_FIRST = 1 };
#else
enum { SIGNALLING_FIRST = 0 };
#endif

// arithmetic_f32 and arithmetic_f64 are one step of a sum or product. A NaN of two numbers (Inf - Inf) is the CPU's own.
#define ARITHMETIC(name, type, uint, of, bits_of, quiet) \
	static uint name(int op, uint a, uint b) \
	{ \
		volatile type x = of(a), y = of(b); \
		if (isnan(x) && !(SIGNALLING_FIRST && (a & quiet) && isnan(y) && !(b & quiet))) \
			return a | quiet; \
		if (isnan(y)) \
			return b | quiet; \
		return bits_of(op == OP_PROD ? x * y : x + y); \
	}
ARITHMETIC(arithmetic_f32, float, uint32_t, float_of, bits_of, UINT32_C(0x400000))
ARITHMETIC(arithmetic_f64, double, uint64_t, double_of, bits_of_double, UINT64_C(0x8000000000000))
#undef ARITHMETIC

static uint64_t step_f32(int op, uint32_t a, uint32_t b)
{
	const float x = float_of(a), y = float_of(b);
	if (op != OP_MAX && op != OP_MIN)
		return arithmetic_f32(op, a, b);
	return isnan(x) ? a : isnan(y) ? b : (op == OP_MAX ? x < y : x > y) ? b : a;
}
static uint64_t step_f64(int op, uint64_t a, uint64_t b)
{
	const double x = double_of(a), y = double_of(b);
	if (op != OP_MAX && op != OP_MIN)
		return arithmetic_f64(op, a, b);
	return isnan(x) ? a : isnan(y) ? b : (op == OP_MAX ? x < y : x > y) ? b : a;
}

static int is_signed(int dtype) { return dtype == DT_INT8 || dtype == DT_INT32 || dtype == DT_INT64; }
static int is_float(int dtype) { return dtype >= DT_FLOAT16; }

// extended is an integer's bits as 64 of them.
static uint64_t extended(int dtype, uint64_t bits)
{
	const int unused = 64 - 8 * (int)dtype_size(dtype);
	return is_signed(dtype) ? (uint64_t)((int64_t)(bits << unused) >> unused) : bits << unused >> unused;
}

static uint64_t step_integer(int dtype, int op, uint64_t a, uint64_t b)
{
	const int less = is_signed(dtype) ? (int64_t)a < (int64_t)b : a < b;
	switch (op) {
	case OP_PROD: return extended(dtype, a * b);
	case OP_MAX: return less ? b : a;
	case OP_MIN: return less ? a : b;
	case OP_BAND: return a & b;
	case OP_BOR: return a | b;
	case OP_BXOR: return a ^ b;
	default: return extended(dtype, a + b);
	}
}

// expand and shrink go between an element's bits and those of its accumulator.
static uint64_t expand(int dtype, uint64_t bits)
{
	switch (dtype) {
	case DT_FLOAT16: return widen16((unsigned)bits, 5);
	case DT_BFLOAT16: return widen16((unsigned)bits, 8);
	case DT_FLOAT32: case DT_FLOAT64: return bits;
	default: return extended(dtype, bits);
	}
}
static uint64_t shrink(int dtype, uint64_t acc)
{
	switch (dtype) {
	case DT_FLOAT16: return narrow16((uint32_t)acc, 5);
	case DT_BFLOAT16: return narrow16((uint32_t)acc, 8);
	default: return acc;
	}
}

static uint64_t divided(int dtype, uint64_t acc, int world)
{
	switch (dtype) {
	case DT_FLOAT64: return isnan(double_of(acc)) ? acc | UINT64_C(0x8000000000000) : bits_of_double(double_of(acc) / world);
	case DT_FLOAT16: case DT_BFLOAT16: case DT_FLOAT32:
		return isnan(float_of((uint32_t)acc)) ? acc | 0x400000 : bits_of(float_of((uint32_t)acc) / (float)world);
	default: return is_signed(dtype) ? (uint64_t)((int64_t)acc / world) : acc / (uint64_t)world;
	}
}

// reference reduces the elements with these bits. One input is given back as it is.
static uint64_t reference(int dtype, int op, const uint64_t *in, int n, int world)
{
	if (n == 1 && op != OP_AVG)
		return in[0];
	uint64_t acc = expand(dtype, in[0]);
	for (int k = 1; k < n; k++) {
		const uint64_t b = expand(dtype, in[k]);
		acc = dtype == DT_FLOAT64 ? step_f64(op, acc, b) : is_float(dtype) ? step_f32(op, (uint32_t)acc, (uint32_t)b) : step_integer(dtype, op, acc, b);
	}
	return shrink(dtype, op == OP_AVG ? divided(dtype, acc, world) : acc);
}

#endif
