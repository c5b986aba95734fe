package bench

import (
	"math"
	"slices"

	"gorun/comm"
)

// element is an element type.
type element struct {
	name, short string // Go's name, and nccl-tests' name
	size        int
	vectors     func(g *comm.Group, c Config, longest int) (vectors, error)
}

var elements = []element{
	{"float32", "float", 4, vectorsOf(codec[float32]{float[float32], plain[float32], 1 << 24})},
	{"float64", "double", 8, vectorsOf(codec[float64]{float[float64], plain[float64], 1 << 53})},
	{"float16", "half", 2, vectorsOf(codec[comm.Float16]{
		func(v float64) comm.Float16 { return comm.NewFloat16(float32(v)) },
		func(h comm.Float16) float64 { return float64(h.Float32()) }, 1 << 11,
	})},
	{"bfloat16", "bfloat16", 2, vectorsOf(codec[comm.BFloat16]{
		func(v float64) comm.BFloat16 { return comm.NewBFloat16(float32(v)) },
		func(b comm.BFloat16) float64 { return float64(b.Float32()) }, 1 << 8,
	})},
	{"int8", "int8", 1, vectorsOf(codec[int8]{wrapped[int8], plain[int8], 0})},
	{"uint8", "uint8", 1, vectorsOf(codec[uint8]{wrapped[uint8], plain[uint8], 0})},
	{"int32", "int32", 4, vectorsOf(codec[int32]{wrapped[int32], plain[int32], 0})},
	{"uint32", "uint32", 4, vectorsOf(codec[uint32]{wrapped[uint32], plain[uint32], 0})},
	{"int64", "int64", 8, vectorsOf(codec[int64]{wrapped[int64], plain[int64], 0})},
	{"uint64", "uint64", 8, vectorsOf(codec[uint64]{wrapped[uint64], plain[uint64], 0})},
}

func (e element) title() string { return e.name }

// DTypes returns the names of the element types.
func DTypes() []string { return titles(elements) }

// titled is a row of a table, with a name.
type titled interface{ title() string }

func titles[T titled](table []T) (names []string) {
	for _, row := range table {
		names = append(names, row.title())
	}
	return names
}

// find returns the row with a name, or nil.
func find[T titled](table []T, name string) *T {
	i := slices.Index(titles(table), name)
	if i < 0 {
		return nil
	}
	return &table[i]
}

// codec converts numbers to elements and back.
type codec[T comm.Number] struct {
	of func(float64) T
	to func(T) float64
	// exact is the limit up to which integers are exact; 0 means an integer type.
	exact float64
}

type floats interface{ ~float32 | ~float64 }

type plainNumber interface {
	~int8 | ~uint8 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

func float[T floats](v float64) T        { return T(v) }
func plain[T plainNumber](v T) float64   { return float64(v) }
func wrapped[T plainNumber](v float64) T { return T(int64(v)) }

// near reports whether a result equals the expected one, except for the rounding of a division. Integers must
// be equal.
func (c codec[T]) near(got, want T) bool {
	if got == want {
		return true
	}
	g, w := c.to(got), c.to(want)
	return c.exact > 0 && math.Abs(g-w) <= 2*math.Abs(w)/c.exact
}

// reduction combines elements of all ranks into one.
type reduction struct {
	name string
	op   comm.Op
	// bits marks a bitwise reduction of integers.
	bits bool
	join func(a, b float64) float64
}

var reductions = []reduction{
	{"sum", comm.Sum, false, func(a, b float64) float64 { return a + b }},
	{"prod", comm.Prod, false, func(a, b float64) float64 { return a * b }},
	{"max", comm.Max, false, math.Max},
	{"min", comm.Min, false, math.Min},
	{"avg", comm.Avg, false, func(a, b float64) float64 { return a + b }}, // divided by the number of ranks at the end
	{"band", comm.BAnd, true, func(a, b float64) float64 { return float64(int64(a) & int64(b)) }},
	{"bor", comm.BOr, true, func(a, b float64) float64 { return float64(int64(a) | int64(b)) }},
	{"bxor", comm.BXor, true, func(a, b float64) float64 { return float64(int64(a) ^ int64(b)) }},
}

func (r reduction) title() string { return r.name }

// Reductions returns the names of the reductions.
func Reductions() []string { return titles(reductions) }

// period is the number of elements after which inputs repeat. It is prime, so that the check detects misplaced
// data.
const period = 4093

// input returns element i of a rank's input. It is small enough that reductions over a hundred ranks are exact
// in 16 bits.
func (r *reduction) input(rank, i int) float64 {
	i %= period
	switch {
	case r.bits:
		return float64((rank*37 + i*11) & 0x7F)
	case r.op == comm.Prod:
		if (rank+i)%8 == 0 {
			return 2
		}
		return 1
	}
	return float64((rank*7+i*i+i/3)%4 + 1)
}

// result returns element i of all ranks' inputs, reduced in rank order.
func (r *reduction) result(ranks, i int, integers bool) float64 {
	v := r.input(0, i)
	for rank := 1; rank < ranks; rank++ {
		v = r.join(v, r.input(rank, i))
	}
	if r.op != comm.Avg {
		return v
	}
	if v /= float64(ranks); integers {
		return math.Trunc(v)
	}
	return v
}
