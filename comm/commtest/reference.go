package commtest

import (
	"math"
	"math/rand/v2"

	"gorun/comm"
)

// element is what the suite knows of a type: how to draw a value, how ranks' values reduce, and what number it is.
type element[T comm.Number] struct {
	name   string
	draw   func(r *rand.Rand) T
	reduce func(op comm.Op, ranks []T) T
	wide   func(T) float64 // nil for integers
}

// same reports equal bits; NaNs are all the same, since which one a sum keeps is the CPU's affair.
func (e element[T]) same(a, b T) bool {
	if e.wide == nil {
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

// reduceIntegers wraps in sums and products; Avg truncates.
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

// average divides; a group may have more ranks than int8 has numbers, so it counts in 64 bits.
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

// reduceFloats goes in rank order, so that the result has one right value.
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

// first keeps the first NaN and, of equals, the first.
func first[T float32 | float64](a, b T, better bool) T {
	if a == a && (b != b || better) {
		return b
	}
	return a
}

// halves are the types of 16 bits: accumulated in float32, rounded once.
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

// drawFloat is mostly a number of middling size; one in sixteen is a corner of the format.
func drawFloat(r *rand.Rand) float64 {
	corners := []float64{
		0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 65504, 65520, 6e-8, 1e-40,
		-3e38, 1e38,
	}
	if r.IntN(16) == 0 {
		return corners[r.IntN(len(corners))]
	}
	return (r.Float64() - 0.5) * math.Exp2(float64(r.IntN(20)))
}

var float32s = floats[float32]("float32")

// types are all, by a number that a drawn call can hold.
var types = []typed{
	integers[int8]("int8"), integers[uint8]("uint8"), integers[int32]("int32"), integers[uint32]("uint32"),
	integers[int64]("int64"), integers[uint64]("uint64"),
	halves("float16", comm.Float16.Float32, comm.NewFloat16), halves("bfloat16", comm.BFloat16.Float32, comm.NewBFloat16),
	float32s, floats[float64]("float64"),
}

// ops are the reductions that the type has.
func (e element[T]) ops() []comm.Op {
	ops := []comm.Op{comm.Sum, comm.Prod, comm.Max, comm.Min, comm.Avg}
	if e.wide == nil {
		ops = append(ops, comm.BAnd, comm.BOr, comm.BXor)
	}
	return ops
}
