//go:build cgo

package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/comm"
)

// alone returns a group of one rank.
func alone(t *testing.T) *comm.Group {
	t.Helper()
	g, err := comm.Join(t.Context(), comm.WithRank(0, 1))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

// Each operation has the expected result in every type, and the check counts one wrong element.
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
				requireOneWrong(t, v)
			}
		}
	}
}

// requireOneWrong makes a call and changes the last element of the output.
func requireOneWrong(t *testing.T, v vectors) {
	t.Helper()
	require.NoError(t, v.spoil())
	require.NoError(t, v.fill())
	require.NoError(t, v.call(t.Context()))
	found, err := v.wrong()
	require.NoError(t, err)
	require.Zero(t, found, "%+v", v)
	require.NoError(t, v.(interface{ corrupt() error }).corrupt())
	found, err = v.wrong()
	require.NoError(t, err)
	require.Equal(t, int64(1), found, "%+v", v)
}

// corrupt changes the last element of the output, also on a GPU.
func (t *typed[T]) corrupt() error {
	out := t.on(t.out)
	out[len(out)-1] = t.of(99)
	return t.push(t.out)
}

// The check detects missing results, whatever the output contained before.
func TestSpoil(t *testing.T) {
	v, err := find(elements, "float32").vectors(alone(t), Config{Operation: "allreduce", DType: "float32"}, 100)
	require.NoError(t, err)
	v.prepare(100, false)
	require.NoError(t, v.spoil())
	require.NoError(t, v.fill())
	found, err := v.wrong()
	require.NoError(t, err)
	require.Equal(t, int64(100), found)
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
		var unwilling *UnsupportedError
		require.ErrorAs(t, runIn(context.Background(), alone(t), odd, Host{}, &out), &unwilling)
	}
	err := runIn(t.Context(), alone(t), c, Host{Memory: 100}, &out)
	require.ErrorContains(t, err, "the buffers of 1 ranks on a host take", "a limit of cgroups")
}

// lines records the lines written to it.
type lines []string

func (l *lines) Write(p []byte) (int, error) {
	*l = append(*l, string(p))
	return len(p), nil
}

func TestReductionsInRankOrder(t *testing.T) {
	for name, want := range map[string]float64{"sum": 7, "prod": 1, "max": 4, "min": 1, "avg": 7.0 / 3} {
		r := find(reductions, name)
		got := r.result(3, 1, false)
		require.Equal(t, want, got, "%s of %v %v %v", name, r.input(0, 1), r.input(1, 1), r.input(2, 1))
	}
	require.Equal(t, 1.0, find(reductions, "avg").result(2, 1, true), "3/2 in integers")
	require.Nil(t, find(reductions, "xor"))
}
