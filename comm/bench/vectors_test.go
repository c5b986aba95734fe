//go:build cgo

package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/comm"
)

// alone is a group of one rank.
func alone(t *testing.T) *comm.Group {
	t.Helper()
	g, err := comm.Join(t.Context(), comm.WithRank(0, 1))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

// Each operation gives what the check expects, in every type; and one element that differs is counted.
func TestCheckCounts(t *testing.T) {
	g := alone(t)
	for _, o := range operations {
		for _, e := range elements {
			if o.name == "barrier" || o.name == "p2p" {
				continue
			}
			v, err := e.vectors(g, Config{Operation: o.name, DType: e.name}, 5000)
			require.NoError(t, err)
			for _, inPlace := range []bool{false, true} {
				if inPlace && !o.inPlace || !inPlace && !o.outOfPlace {
					continue
				}
				v.prepare(5000, inPlace)
				v.fill()
				v.spoil()
				require.NoError(t, v.call(t.Context()))
				require.Zero(t, v.wrong(), "%s %s in place: %v", o.name, e.name, inPlace)
				corrupt(v)
				require.Equal(t, int64(1), v.wrong(), "%s %s in place: %v", o.name, e.name, inPlace)
			}
		}
	}
}

// corrupt changes the last element of the output.
func corrupt(v vectors) {
	switch v := v.(type) {
	case *typed[float32]:
		v.out[len(v.out)-1]++
	case *typed[float64]:
		v.out[len(v.out)-1]++
	case *typed[comm.Float16]:
		v.out[len(v.out)-1] += 99
	case *typed[comm.BFloat16]:
		v.out[len(v.out)-1] += 99
	case *typed[int8]:
		v.out[len(v.out)-1]++
	case *typed[uint8]:
		v.out[len(v.out)-1]++
	case *typed[int32]:
		v.out[len(v.out)-1]++
	case *typed[uint32]:
		v.out[len(v.out)-1]++
	case *typed[int64]:
		v.out[len(v.out)-1]++
	case *typed[uint64]:
		v.out[len(v.out)-1]++
	}
}

// Results that do not come are not what was there before.
func TestSpoil(t *testing.T) {
	v, err := elementOf("float32").vectors(alone(t), Config{Operation: "allreduce", DType: "float32"}, 100)
	require.NoError(t, err)
	v.prepare(100, false)
	v.fill()
	v.spoil()
	require.Equal(t, int64(100), v.wrong())
}

func TestRunAlone(t *testing.T) {
	c := Config{
		Operation: "allreduce", DType: "float32", Begin: 8, End: 64, Factor: 2, Trials: 3, Warmup: 1,
		PerSize: time.Millisecond, Check: true, Backend: "cpu", CSV: true,
	}
	var out lines
	require.NoError(t, runIn(t.Context(), alone(t), c, Host{}, &out))
	require.Len(t, out, 1+2*4)
	for _, change := range []func(*Config){
		func(c *Config) { c.Operation = "dance" }, func(c *Config) { c.DType = "complex" }, func(c *Config) { c.Op = "xor" },
		func(c *Config) {
			c.Op = "bxor"
		}, func(c *Config) { c.Operation = "p2p" }, func(c *Config) { c.Operation, c.Root = "reduce", 1 },
		func(c *Config) { c.End = 1 << 50 },
	} {
		odd := c
		change(&odd)
		var unwilling *WishError
		require.ErrorAs(t, runIn(context.Background(), alone(t), odd, Host{}, &out), &unwilling)
	}
}

// lines counts what is written to it.
type lines []string

func (l *lines) Write(p []byte) (int, error) {
	*l = append(*l, string(p))
	return len(p), nil
}

func TestReductionsInRankOrder(t *testing.T) {
	for name, want := range map[string]float64{"sum": 7, "prod": 1, "max": 4, "min": 1, "avg": 7.0 / 3} {
		r := reductionOf(name)
		got := r.result(3, 1, false)
		require.Equal(t, want, got, "%s of %v %v %v", name, r.input(0, 1), r.input(1, 1), r.input(2, 1))
	}
	require.Equal(t, 1.0, reductionOf("avg").result(2, 1, true), "3/2 in integers")
	require.Equal(t, reductionOf("sum"), reductionOf(""))
	require.Nil(t, reductionOf("xor"))
}
