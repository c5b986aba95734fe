// Vectors of WIDTH bytes and what the kernels do with one: load, combine, finish, store. Included once for each width of an instruction set, with
// V(name) giving every name the width's own suffix. The vectors are those of GNU C (gcc, clang): the compiler picks the instructions, and no loop
// has to be proven free of overlaps, because each step loads all that it needs before it stores.
//
// t and op are constants at every call: the switches are gone after inlining.

typedef uint8_t V(u8) __attribute__((vector_size(WIDTH)));
typedef int8_t V(i8) __attribute__((vector_size(WIDTH)));
typedef uint32_t V(u32) __attribute__((vector_size(WIDTH)));
typedef int32_t V(i32) __attribute__((vector_size(WIDTH)));
typedef uint64_t V(u64) __attribute__((vector_size(WIDTH)));
typedef int64_t V(i64) __attribute__((vector_size(WIDTH)));
typedef float V(f32) __attribute__((vector_size(WIDTH)));
typedef double V(f64) __attribute__((vector_size(WIDTH)));
typedef uint16_t V(half) __attribute__((vector_size(WIDTH / 2))); // as many 16-bit floats as fill a vector of float32

// SELECT takes x where the mask (all ones or zero in each lane) is set, else y. Both and mask are vectors of the unsigned type u.
#define SELECT(u, mask, x, y) (((u)(mask) & (u)(x)) | (~(u)(mask) & (u)(y)))

// Sums and products of floats are instructions given by name where a NaN's payload is that of the first operand that has one: the compiler
// may swap the operands of + and *. In arm64 a signalling NaN goes before a quiet one, elsewhere the CPU decides.
#if defined(HAVE_AVX)
#define FLOAT_OP(name, type, x86, arm) \
	INLINE V(type) V(name)(V(type) a, V(type) b) { V(type) r; __asm__("v" x86 " %2, %1, %0" : "=v"(r) : "v"(a), "v"(b)); return r; }
#elif defined(__x86_64__)
#define FLOAT_OP(name, type, x86, arm) \
	INLINE V(type) V(name)(V(type) a, V(type) b) { __asm__(x86 " %1, %0" : "+x"(a) : "x"(b)); return a; }
#elif defined(__aarch64__)
#define FLOAT_OP(name, type, x86, arm) \
	INLINE V(type) V(name)(V(type) a, V(type) b) { V(type) r; __asm__(arm : "=w"(r) : "w"(a), "w"(b)); return r; }
#else
#define FLOAT_OP(name, type, x86, arm) \
	INLINE V(type) V(name)(V(type) a, V(type) b) { return name##_OPERATOR(a, b); }
#define add_f32_OPERATOR(a, b) ((a) + (b))
#define add_f64_OPERATOR(a, b) ((a) + (b))
#define mul_f32_OPERATOR(a, b) ((a) * (b))
#define mul_f64_OPERATOR(a, b) ((a) * (b))
#endif
FLOAT_OP(add_f32, f32, "addps", "fadd %0.4s, %1.4s, %2.4s")
FLOAT_OP(mul_f32, f32, "mulps", "fmul %0.4s, %1.4s, %2.4s")
FLOAT_OP(add_f64, f64, "addpd", "fadd %0.2d, %1.2d, %2.2d")
FLOAT_OP(mul_f64, f64, "mulpd", "fmul %0.2d, %1.2d, %2.2d")
#undef FLOAT_OP

// apply_float is the four reductions of floats. Of two equal values (0 and -0) and of two NaNs the first stays.
#define APPLY_FLOAT(type, bits) \
	INLINE V(u8) V(apply_##type)(int op, V(u8) a, V(u8) b) \
	{ \
		V(type) x = (V(type))a, y = (V(type))b; \
		switch (op) { \
		case OP_PROD: return (V(u8))V(mul_##type)(x, y); \
		case OP_MAX: return (V(u8))SELECT(V(bits), (x >= y) | (x != x), x, y); \
		case OP_MIN: return (V(u8))SELECT(V(bits), (x <= y) | (x != x), x, y); \
		default: return (V(u8))V(add_##type)(x, y); /* OP_SUM, OP_AVG */ \
		} \
	}
APPLY_FLOAT(f32, u32)
APPLY_FLOAT(f64, u64)
#undef APPLY_FLOAT

// apply_integer is the reductions of integers; sums and products are unsigned, which wraps in C, too.
#define APPLY_INTEGER(type, bits) \
	INLINE V(u8) V(apply_##type)(int op, V(u8) a, V(u8) b) \
	{ \
		switch (op) { \
		case OP_PROD: return (V(u8))((V(bits))a * (V(bits))b); \
		case OP_MAX: return (V(u8))SELECT(V(bits), (V(type))a > (V(type))b, a, b); \
		case OP_MIN: return (V(u8))SELECT(V(bits), (V(type))a < (V(type))b, a, b); \
		case OP_BAND: return a & b; \
		case OP_BOR: return a | b; \
		case OP_BXOR: return a ^ b; \
		default: return (V(u8))((V(bits))a + (V(bits))b); /* OP_SUM, OP_AVG */ \
		} \
	}
APPLY_INTEGER(i8, u8)
APPLY_INTEGER(u8, u8)
APPLY_INTEGER(i32, u32)
APPLY_INTEGER(u32, u32)
APPLY_INTEGER(i64, u64)
APPLY_INTEGER(u64, u64)
#undef APPLY_INTEGER

INLINE V(u8) V(apply)(int t, int op, V(u8) a, V(u8) b)
{
	switch (t) {
	case DT_INT8: return V(apply_i8)(op, a, b);
	case DT_UINT8: return V(apply_u8)(op, a, b);
	case DT_INT32: return V(apply_i32)(op, a, b);
	case DT_UINT32: return V(apply_u32)(op, a, b);
	case DT_INT64: return V(apply_i64)(op, a, b);
	case DT_UINT64: return V(apply_u64)(op, a, b);
	case DT_FLOAT64: return V(apply_f64)(op, a, b);
	default: return V(apply_f32)(op, a, b);
	}
}

// divide_… divide each lane, truncating towards zero. Up to 32 bits a division in float64 is exact enough: a quotient that is no integer is
// further from the next one than the rounding goes (1/2^32 against 1/2^53, relatively).
#define DIVIDE(type, element, wide, member) \
	OUTLINE V(u8) V(divide_##type)(V(u8) a, const struct divisor *by) \
	{ \
		element lane[WIDTH / sizeof(element)]; \
		memcpy(lane, &a, WIDTH); \
		for (size_t l = 0; l < WIDTH / sizeof(element); l++) \
			lane[l] = (element)((wide)lane[l] / (wide)by->member); \
		memcpy(&a, lane, WIDTH); \
		return a; \
	}
DIVIDE(i8, int8_t, double, f64)
DIVIDE(u8, uint8_t, double, f64)
DIVIDE(i32, int32_t, double, f64)
DIVIDE(u32, uint32_t, double, f64)
DIVIDE(i64, int64_t, int64_t, world)
DIVIDE(u64, uint64_t, uint64_t, world)
#undef DIVIDE

// finish divides the sum for OP_AVG. The product with the reciprocal of a power of two is the same as the quotient, and faster.
INLINE V(u8) V(finish)(int t, int op, V(u8) a, const struct divisor *by)
{
	if (op != OP_AVG)
		return a;
	switch (t) {
	case DT_INT8: return V(divide_i8)(a, by);
	case DT_UINT8: return V(divide_u8)(a, by);
	case DT_INT32: return V(divide_i32)(a, by);
	case DT_UINT32: return V(divide_u32)(a, by);
	case DT_INT64: return V(divide_i64)(a, by);
	case DT_UINT64: return V(divide_u64)(a, by);
	case DT_FLOAT64: return by->power_of_two ? (V(u8))((V(f64))a * by->reciprocal_f64) : (V(u8))((V(f64))a / by->f64);
	default: return by->power_of_two ? (V(u8))((V(f32))a * by->reciprocal_f32) : (V(u8))((V(f32))a / by->f32);
	}
}

#if WIDTH == 16
// extend and truncate go between 16 and 32 bits, lane by lane. Written out, because gcc 12 does it by lanes otherwise. Only the shortest vectors
// need them: wider ones have instructions for float16, and take bfloat16 in pairs.
#if defined(__x86_64__)
INLINE V(u32) V(extend)(V(half) h) { return (V(u32))_mm_unpacklo_epi16(_mm_cvtsi64_si128((long long)h), _mm_setzero_si128()); }
INLINE V(half) V(truncate)(V(u32) u)
{
	const __m128i low = _mm_srai_epi32((__m128i)(u << 16), 16); // as signed ones they pass the saturation
	return (V(half))_mm_cvtsi128_si64(_mm_packs_epi32(low, low));
}
#elif defined(__aarch64__)
INLINE V(u32) V(extend)(V(half) h) { return (V(u32))vmovl_u16((uint16x4_t)h); }
INLINE V(half) V(truncate)(V(u32) u) { return (V(half))vmovn_u32((uint32x4_t)u); }
#else
INLINE V(u32) V(extend)(V(half) h) { return __builtin_convertvector(h, V(u32)); }
INLINE V(half) V(truncate)(V(u32) u) { return __builtin_convertvector(u, V(half)); }
#endif
#endif

// widen_f16 and narrow_f16 convert as the x86 instructions do: to nearest even, NaNs become quiet and keep the upper bits of their payload.
#if defined(HAVE_AVX)
#if WIDTH == 64
INLINE V(u8) V(widen_f16)(V(half) h) { return (V(u8))_mm512_cvtph_ps((__m256i)h); }
INLINE V(half) V(narrow_f16)(V(u8) a) { return (V(half))_mm512_cvtps_ph((__m512)a, _MM_FROUND_TO_NEAREST_INT); }
#elif WIDTH == 32
INLINE V(u8) V(widen_f16)(V(half) h) { return (V(u8))_mm256_cvtph_ps((__m128i)h); }
INLINE V(half) V(narrow_f16)(V(u8) a) { return (V(half))_mm256_cvtps_ph((__m256)a, _MM_FROUND_TO_NEAREST_INT); }
#else
INLINE V(u8) V(widen_f16)(V(half) h) { return (V(u8))_mm_cvtph_ps(_mm_cvtsi64_si128((long long)h)); }
INLINE V(half) V(narrow_f16)(V(u8) a) { return (V(half))_mm_cvtsi128_si64(_mm_cvtps_ph((__m128)a, _MM_FROUND_TO_NEAREST_INT)); }
#endif
#elif defined(__aarch64__)
INLINE V(u8) V(widen_f16)(V(half) h) { return (V(u8))vcvt_f32_f16((float16x4_t)h); }
INLINE V(half) V(narrow_f16)(V(u8) a) { return (V(half))vcvt_f16_f32((float32x4_t)a); }
#else
INLINE V(u8) V(widen_f16)(V(half) h)
{
	V(i32) u = (V(i32))V(extend)(h), m = u & 0x7fff; // signed: SSE2 has no other comparison
	V(u32) sign = ((V(u32))u & 0x8000) << 16;
	V(i32) normal = (m << 13) + (112 << 23), special = (m << 13) | 0x7f800000 | ((m > 0x7c00) & 0x400000);
	V(i32) subnormal = (V(i32))(__builtin_convertvector(m, V(f32)) * 0x1p-24f);
	return (V(u8))(sign | SELECT(V(u32), m < 0x400, subnormal, SELECT(V(u32), m > 0x7bff, special, normal)));
}
INLINE V(half) V(narrow_f16)(V(u8) a)
{
	V(i32) u = (V(i32))a & 0x7fffffff;
	V(u32) sign = ((V(u32))a ^ (V(u32))u) >> 16;
	V(i32) normal = (u - (112 << 23) + 0xfff + ((u >> 13) & 1)) >> 13;
	V(i32) subnormal = (V(i32))((V(f32))u + 0.5f) - 0x3f000000; // one half's last place is 2^-24, that of the smallest float16: the sum rounds
	V(i32) special = 0x7c00 | ((u > 0x7f800000) & (0x200 | ((u >> 13) & 0x3ff)));
	V(u32) h = SELECT(V(u32), u < 0x38800000, subnormal, SELECT(V(u32), u > 0x477fefff, special, normal));
	return V(truncate)(h | sign);
}
#endif

// round_bf16 leaves a bfloat16 in the upper half of each lane, and anything in the lower.
INLINE V(u32) V(round_bf16)(V(u8) a)
{
	V(u32) u = (V(u32))a, rounded = u + 0x7fff + ((u >> 16) & 1);
	return SELECT(V(u32), (V(f32))a != (V(f32))a, u | 0x400000, rounded);
}

// stream_… write past the caches, where the CPU has that; p is aligned to the vector's size.
INLINE void V(stream_u8)(void *p, V(u8) v)
{
#if defined(__x86_64__) && WIDTH == 64
	_mm512_stream_si512((__m512i *)p, (__m512i)v);
#elif defined(__x86_64__) && WIDTH == 32
	_mm256_stream_si256((__m256i *)p, (__m256i)v);
#elif defined(__x86_64__)
	_mm_stream_si128((__m128i *)p, (__m128i)v);
#else
	memcpy(p, &v, WIDTH);
#endif
}
INLINE void V(stream_half)(void *p, V(half) v)
{
#if defined(__x86_64__) && WIDTH == 64
	_mm256_stream_si256((__m256i *)p, (__m256i)v);
#elif defined(__x86_64__) && WIDTH == 32
	_mm_stream_si128((__m128i *)p, (__m128i)v);
#elif defined(__x86_64__)
	_mm_stream_si64((long long *)p, (long long)v);
#else
	memcpy(p, &v, WIDTH / 2);
#endif
}

// load reads STEP(t, WIDTH) bytes.
INLINE V(u8) V(load)(int t, const void *p)
{
	V(u8) a;
	V(half) h;
	if (t != DT_FLOAT16 && t != DT_BFLOAT16) {
		memcpy(&a, p, WIDTH);
		return a;
	}
	memcpy(&h, p, WIDTH / 2);
#if WIDTH == 16
	if (t == DT_BFLOAT16)
		return (V(u8))(V(extend)(h) << 16);
#endif
	return V(widen_f16)(h);
}

// store is the reverse of load.
INLINE void V(store)(int t, void *p, V(u8) a, int streaming)
{
	if (t != DT_FLOAT16 && t != DT_BFLOAT16) {
		if (streaming)
			V(stream_u8)(p, a);
		else
			memcpy(p, &a, WIDTH);
		return;
	}
	V(half) h;
#if WIDTH == 16
	if (t == DT_BFLOAT16)
		h = V(truncate)(V(round_bf16)(a) >> 16);
	else
#endif
		h = V(narrow_f16)(a);
	if (streaming)
		V(stream_half)(p, h);
	else
		memcpy(p, &h, WIDTH / 2);
}

// load_pair and store_pair move two vectors of elements that follow one another. With bfloat16 the first gets every other element, and the second
// those between: it spares the moves between lanes.
INLINE void V(load_pair)(int t, const unsigned char *p, V(u8) *a, V(u8) *b)
{
	if (t != DT_BFLOAT16) {
		*a = V(load)(t, p);
		*b = V(load)(t, p + STEP(t, WIDTH));
		return;
	}
	V(u32) both = (V(u32))V(load)(DT_UINT32, p);
	*a = (V(u8))(both << 16);
	*b = (V(u8))(both & 0xffff0000);
}
INLINE void V(store_pair)(int t, unsigned char *p, V(u8) a, V(u8) b, int streaming)
{
	if (t != DT_BFLOAT16) {
		V(store)(t, p, a, streaming);
		V(store)(t, p + STEP(t, WIDTH), b, streaming);
		return;
	}
	V(u32) both = V(round_bf16)(a) >> 16 | (V(round_bf16)(b) & 0xffff0000);
	V(store)(DT_UINT32, p, (V(u8))both, streaming);
}

#undef SELECT
