package commtest

import (
	"math"
	"math/rand/v2"

	"gorun/comm"
)

// element describes a type for the suite: how to draw a value, how to reduce, and how to convert it.
type element[T comm.Number] struct {
	name   string
	draw   func(r *rand.Rand) T
	reduce func(op comm.Op, ranks []T) T
	wide   func(T) float64 // nil for integers
}

// same reports whether the bits are equal. All NaNs are equal, since the CPU decides which one a sum keeps.
func (e element[T]) same(a, b T) bool {
	if e.wide == nil || a == b && a != 0 {
		return a == b
	}
	x, y := e.wide(a), e.wide(b)
	return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
}

type integer interface {
	int8 | uint8 | int32 | uint32 | int64 | uint64
}

func integers[T integer](name string) element[T] {
	return element[T]{name: name, draw: func(r *rand.Rand) T { return T(r.Uint64()) }, reduce: reduceIntegers[T]}
}

// reduceIntegers wraps around in sums and products. Avg truncates.
func reduceIntegers[T integer](op comm.Op, ranks []T) T {
	result := ranks[0]
	for _, v := range ranks[1:] {
		switch op {
		case comm.Sum, comm.Avg:
			result += v
		case comm.Prod:
			result *= v
		case comm.Max:
			result = max(result, v)
		case comm.Min:
			result = min(result, v)
		case comm.BAnd:
			result &= v
		case comm.BOr:
			result |= v
		case comm.BXor:
			result ^= v
		}
	}
	if op == comm.Avg {
		return average(result, len(ranks))
	}
	return result
}

// average divides in 64 bits, because a group can have more ranks than int8 can represent.
func average[T integer](sum T, ranks int) T {
	if ^T(0) > 0 {
		return T(uint64(sum) / uint64(ranks))
	}
	return T(int64(sum) / int64(ranks))
}

func floats[T float32 | float64](name string) element[T] {
	return element[T]{
		name: name, draw: func(r *rand.Rand) T { return T(drawFloat(r)) }, reduce: reduceFloats[T],
		wide: func(v T) float64 { return float64(v) },
	}
}

// reduceFloats reduces in rank order, so that exactly one result is correct.
func reduceFloats[T float32 | float64](op comm.Op, ranks []T) T {
	result := ranks[0]
	for _, v := range ranks[1:] {
		switch op {
		case comm.Sum, comm.Avg:
			result += v
		case comm.Prod:
			result *= v
		case comm.Max:
			result = first(result, v, v > result)
		case comm.Min:
			result = first(result, v, v < result)
		}
	}
	if op == comm.Avg {
		result /= T(len(ranks))
	}
	return result
}

// first returns the first NaN, or the first of equal values.
func first[T float32 | float64](a, b T, better bool) T {
	if a == a && (b != b || better) {
		return b
	}
	return a
}

// halves describes the 16-bit types: accumulated in float32, rounded once.
func halves[T comm.Float16 | comm.BFloat16](name string, wide func(T) float32, narrow func(float32) T) element[T] {
	reduce := func(op comm.Op, ranks []T) T {
		all := make([]float32, len(ranks))
		for i, v := range ranks {
			all[i] = wide(v)
		}
		return narrow(reduceFloats(op, all))
	}
	return element[T]{
		name: name, draw: func(r *rand.Rand) T { return narrow(float32(drawFloat(r))) }, reduce: reduce,
		wide: func(v T) float64 { return float64(wide(v)) },
	}
}

var corners = []float64{
	0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 65504, 65520, 6e-8, 1e-40,
	-3e38, 1e38,
}

// drawFloat usually returns a number of medium size. One in sixteen is a special value of the format.
func drawFloat(r *rand.Rand) float64 {
	if r.IntN(16) == 0 {
		return corners[r.IntN(len(corners))]
	}
	return math.Ldexp(r.Float64()-0.5, r.IntN(20))
}

var float32s = floats[float32]("float32")

// types lists all element types. Drawn calls refer to them by index.
var types = []typed{
	integers[int8]("int8"), integers[uint8]("uint8"), integers[int32]("int32"), integers[uint32]("uint32"),
	integers[int64]("int64"), integers[uint64]("uint64"),
	halves("float16", comm.Float16.Float32, comm.NewFloat16), halves("bfloat16", comm.BFloat16.Float32, comm.NewBFloat16),
	float32s, floats[float64]("float64"),
}

// ops returns the reductions that the type supports.
func (e element[T]) ops() []comm.Op {
	ops := []comm.Op{comm.Sum, comm.Prod, comm.Max, comm.Min, comm.Avg}
	if e.wide == nil {
		ops = append(ops, comm.BAnd, comm.BOr, comm.BXor)
	}
	return ops
}
