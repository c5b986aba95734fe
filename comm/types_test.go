package comm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/comm/internal/backend"
)

// binary16 decodes bits according to IEEE 754.
func binary16(bits uint16) float64 {
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	value := math.Ldexp(1+fraction/1024, exponent-15)
	switch exponent {
	case 0:
		value = math.Ldexp(fraction, -24)
	case 31:
		value = math.Inf(1)
		if fraction != 0 {
			return math.NaN()
		}
	}
	return math.Copysign(value, 1-2*float64(bits>>15))
}

func TestFloat16(t *testing.T) {
	for bits := range 1 << 16 {
		h := Float16(bits)
		f, want := h.Float32(), binary16(uint16(bits))
		if math.IsNaN(want) {
			require.True(t, f != f && NewFloat16(f).Float32() != NewFloat16(f).Float32(), "%#x", bits)
			continue
		}
		require.Equal(t, math.Float64bits(want), math.Float64bits(float64(f)), "%#x", bits)
		require.Equal(t, h, NewFloat16(f), "%#x", bits)
		if bits&0x7FFF < 0x7BFF {
			between(t, float64(f), float64((h + 1).Float32()), func(f float32) uint16 {
				return uint16(NewFloat16(f))
			}, uint16(bits))
		}
	}
	require.EqualValues(t, 0x7BFF, NewFloat16(65519.996))
	require.EqualValues(t, 0x7C00, NewFloat16(65520))
	require.EqualValues(t, 0xFC00, NewFloat16(-math.MaxFloat32))
	require.EqualValues(t, 0x8000, NewFloat16(-math.SmallestNonzeroFloat32))
}

func TestBFloat16(t *testing.T) {
	for bits := range 1 << 16 {
		b := BFloat16(bits)
		f := b.Float32()
		if f != f {
			require.True(t, NewBFloat16(f).Float32() != NewBFloat16(f).Float32(), "%#x", bits)
			continue
		}
		require.Equal(t, uint32(bits)<<16, math.Float32bits(f))
		require.Equal(t, b, NewBFloat16(f), "%#x", bits)
		if bits&0x7FFF < 0x7F7F {
			between(t, float64(f), float64((b + 1).Float32()), func(f float32) uint16 {
				return uint16(NewBFloat16(f))
			}, uint16(bits))
		}
	}
	require.EqualValues(t, 0x7F80, NewBFloat16(math.MaxFloat32))
	require.NotEqual(t, NewBFloat16(math.Float32frombits(0x7F800001)).Float32(), float32(math.Inf(1)), "NaN stays NaN")
}

// between checks the rounding between two adjacent numbers of a format: to the nearest, and to even from the middle.
func between(t *testing.T, low, high float64, round func(float32) uint16, bits uint16) {
	t.Helper()
	middle := float32((low + high) / 2) // exact, since float32 has more bits
	require.Equal(t, bits+bits&1, round(middle), "%#x", bits)
	require.Equal(t, bits, round(math.Nextafter32(middle, float32(low))), "%#x", bits)
	require.Equal(t, bits+1, round(math.Nextafter32(middle, float32(high))), "%#x", bits)
}

type weight float32

type state int64

// Derived types have the DType of their underlying type.
func TestDTypes(t *testing.T) {
	require.Equal(t, backend.Float32, dtypeOf[weight]())
	require.Equal(t, backend.Int64, dtypeOf[state]())
	require.Equal(t, backend.Float16, dtypeOf[Float16]())
	require.Equal(t, backend.BFloat16, dtypeOf[BFloat16]())
	require.Equal(t, backend.Uint8, dtypeOf[byte]())
	require.Equal(t, backend.Int8, dtypeOf[int8]())
	require.Equal(t, backend.Uint32, dtypeOf[uint32]())
	require.Equal(t, backend.Uint64, dtypeOf[uint64]())
	require.Equal(t, backend.Int32, dtypeOf[int32]())
	require.Equal(t, backend.Float64, dtypeOf[float64]())
}
