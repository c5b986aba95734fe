package comm

import (
	"fmt"
	"math"
	"reflect"

	"gorun/comm/internal/backend"
)

// Number is an element's type.
type Number interface {
	~int8 | ~uint8 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64 | Float16 | BFloat16
}

// Float16 is an IEEE 754 binary16 number (half precision), BFloat16 the upper half of a float32. Collectives compute with them; Go cannot, so
// convert.
type (
	Float16  uint16
	BFloat16 uint16
)

// NewBFloat16 rounds to nearest, ties to even. NaN stays NaN.
func NewBFloat16(f float32) BFloat16 {
	bits := math.Float32bits(f)
	if f != f {
		return BFloat16(bits>>16 | 0x40)
	}
	return BFloat16((bits + 0x7FFF + bits>>16&1) >> 16)
}

// Float32 is the same number.
func (b BFloat16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// NewFloat16 rounds to nearest, ties to even; what is too large becomes infinite. NaN stays NaN.
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

// Float32 is the same number.
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

// Op is a reduction.
type Op = backend.Op

// The reductions. Avg is the sum divided by the group's size; integers are truncated. BAnd, BOr and BXor work on integers, and on CPUs only.
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

// dtypeOf returns T's number.
func dtypeOf[T Number]() backend.DType {
	var zero T
	switch any(zero).(type) {
	case float32:
		return backend.Float32
	case float64:
		return backend.Float64
	case Float16:
		return backend.Float16
	case BFloat16:
		return backend.BFloat16
	}
	return integerOf(zero)
}

var kinds = map[reflect.Kind]backend.DType{
	reflect.Int8: backend.Int8, reflect.Uint8: backend.Uint8, reflect.Int32: backend.Int32, reflect.Uint32: backend.Uint32,
	reflect.Int64: backend.Int64, reflect.Uint64: backend.Uint64, reflect.Float32: backend.Float32, reflect.Float64: backend.Float64,
}

// integerOf also serves types that a program derived from numbers.
func integerOf[T Number](zero T) backend.DType {
	switch any(zero).(type) {
	case int8:
		return backend.Int8
	case uint8:
		return backend.Uint8
	case int32:
		return backend.Int32
	case uint32:
		return backend.Uint32
	case int64:
		return backend.Int64
	case uint64:
		return backend.Uint64
	}
	return kinds[reflect.TypeFor[T]().Kind()]
}

// checkOp refuses reductions that the type does not have.
func checkOp(op Op, dtype backend.DType) error {
	if op >= backend.Ops {
		return fmt.Errorf("%v is no reduction", op)
	}
	if op.Bitwise() && dtype.Floating() {
		return fmt.Errorf("%v works on the bits of integers, not on %v", op, dtype)
	}
	return nil
}
