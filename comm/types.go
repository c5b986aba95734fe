package comm

import (
	"fmt"
	"math"
	"unsafe"

	"gorun/comm/internal/backend"
)

// Number is the constraint for the element types of collectives.
type Number interface {
	~int8 | ~uint8 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64 | Float16 | BFloat16
}

// Float16 is an IEEE 754 binary16 number (half precision). BFloat16 is the upper half of a float32. Collectives can
// reduce both types; to compute with them in Go, convert them to float32.
type (
	Float16  uint16
	BFloat16 uint16
)

// NewBFloat16 rounds f to the nearest BFloat16, ties to even. NaN stays NaN.
func NewBFloat16(f float32) BFloat16 {
	bits := math.Float32bits(f)
	if f != f {
		return BFloat16(bits>>16 | 0x40)
	}
	return BFloat16((bits + 0x7FFF + bits>>16&1) >> 16)
}

// Float32 returns the same number as a float32.
func (b BFloat16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// NewFloat16 rounds f to the nearest Float16, ties to even. Values that are too large become infinite. NaN stays NaN.
func NewFloat16(f float32) Float16 {
	bits := math.Float32bits(f)
	sign, rest := uint16(bits>>16&0x8000), bits&0x7FFFFFFF
	switch {
	case rest > 0x7F800000:
		return Float16(sign | 0x7E00 | uint16(rest>>13&0x3FF))
	case rest >= 0x477FF000: // rounds to more than 65504
		return Float16(sign | 0x7C00)
	case rest < 0x38800000: // subnormal: units of 2^-24
		return Float16(sign | uint16(math.RoundToEven(float64(math.Float32frombits(rest))*(1<<24))))
	}
	return Float16(sign | uint16((rest-0x38000000+0xFFF+rest>>13&1)>>13))
}

// Float32 returns the same number as a float32.
func (h Float16) Float32() float32 {
	sign, exponent, fraction := uint32(h&0x8000)<<16, uint32(h>>10&0x1F), uint32(h&0x3FF)
	switch exponent {
	case 0:
		f := float32(fraction) / (1 << 24)
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1F:
		return math.Float32frombits(sign | 0x7F800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// Op is a reduction operation.
type Op = backend.Op

// The reduction operations. Avg is the sum divided by the group's size, truncated for integers. BAnd, BOr and BXor
// accept only integers and run only on CPUs.
const (
	Sum  = backend.Sum
	Prod = backend.Prod
	Max  = backend.Max
	Min  = backend.Min
	Avg  = backend.Avg
	BAnd = backend.BAnd
	BOr  = backend.BOr
	BXor = backend.BXor
)

// dtypeOf returns the DType of T. The compiler can evaluate size, sign and fractions for each type, including types
// derived from numbers, and reduces the function to a constant.
func dtypeOf[T Number]() backend.DType {
	var zero T
	half, below := T(1)/2, zero-1
	switch size := unsafe.Sizeof(zero); {
	case size == 2:
		return sixteen(any(zero))
	case half != 0 && size == 4:
		return backend.Float32
	case half != 0:
		return backend.Float64
	case below < 0:
		return [...]backend.DType{1: backend.Int8, 4: backend.Int32, 8: backend.Int64}[size]
	default:
		return [...]backend.DType{1: backend.Uint8, 4: backend.Uint32, 8: backend.Uint64}[size]
	}
}

// sixteen separates the two 16-bit types, which have the same underlying type.
func sixteen(zero any) backend.DType {
	if _, ok := zero.(Float16); ok {
		return backend.Float16
	}
	return backend.BFloat16
}

// checkOp rejects reductions that the type does not support.
func checkOp(op Op, dtype backend.DType) error {
	if op >= backend.Ops {
		return fmt.Errorf("%v is no reduction", op)
	}
	if op.Bitwise() && dtype.Floating() {
		return fmt.Errorf("%v works on the bits of integers, not on %v", op, dtype)
	}
	return nil
}
