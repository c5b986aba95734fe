package bench

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The factors in nccl-tests' PERFORMANCE.md, for four ranks.
func TestBusFactors(t *testing.T) {
	for name, want := range map[string]float64{
		"allreduce": 1.5, "reduce": 1, "broadcast": 1, "allgather": 0.75, "reducescatter": 0.75, "gather": 0.75,
		"scatter": 0.75, "alltoall": 0.75,
		"sendrecv": 1, "p2p": 1, "barrier": 0,
	} {
		require.Equal(t, want, find(operations, name).factor(4), name)
	}
	require.Len(t, Operations(), 11)
	require.Zero(t, find(operations, "allreduce").factor(1))
}

// A model fitted to two predicted times has the original parameters and predicts these times.
func TestModelFindsItsParameters(t *testing.T) {
	const alpha, beta = 1.5, 0.0001
	for i := range operations {
		o := &operations[i]
		if o.name == "barrier" {
			continue
		}
		for _, n := range []float64{2, 3, 8} {
			at := func(bytes int64) float64 { return o.messages(n)*alpha + o.moved(n)*float64(bytes)*beta }
			m := fit(o, int(n), 8, at(8), 1<<20, at(1<<20))
			require.InEpsilon(t, alpha, m.Alpha, 1e-6, o.name)
			require.InEpsilon(t, beta, m.Beta, 1e-6, o.name)
			for _, bytes := range []int64{8, 4096, 1 << 20} {
				require.InEpsilon(t, at(bytes), m.Microseconds(bytes), 1e-6)
				require.InDelta(t, bytes, m.Bytes(at(bytes)*(1+1e-9)), 1)
			}
		}
	}
}

// Disturbed measurements do not lead to negative parameters.
func TestModelOfOddTimes(t *testing.T) {
	faster := fit(find(operations, "allreduce"), 2, 8, 10, 1<<20, 5)
	require.Zero(t, faster.Beta)
	require.Equal(t, 10.0, faster.Microseconds(1<<20))
	require.Contains(t, faster.String(), "1/β = ? GB/s")
	var none *Model
	require.Zero(t, none.Microseconds(8))
	steep := fit(find(operations, "allreduce"), 2, 1<<10, 1, 1<<20, 1e6)
	require.GreaterOrEqual(t, steep.Alpha, 0.0)
	require.Zero(t, steep.Bytes(-1))
}

func TestShare(t *testing.T) {
	r := sampleReport()
	s := r.share(Config{Compute: time.Millisecond})
	require.Equal(t, Share{
		Compute: 1000, Bytes: 1 << 20, Communication: 200, Measured: true, Part: 200.0 / 1200,
		Most: s.Most,
	}, *s)
	require.Equal(t, "a step of 1000 us of computing and 200.0 us for 1 MiB (measured): communication takes 17 % of it",
		s.String())

	s = r.share(Config{Compute: time.Millisecond, Predict: 10 << 20})
	require.False(t, s.Measured)
	require.True(t, s.Warning)
	require.InEpsilon(t, 1000*0.3/0.7, r.Model.Microseconds(s.Most), 1e-3, "at the limit")
	require.Contains(t, s.String(), "WARNING: a step of 1000 us of computing and ")
	require.Contains(t, s.String(), "10 MiB (predicted): communication takes 71 % of it, more than 30 %")
	require.Contains(t, s.String(), "; up to 1.72 MiB would stay below")
}

func TestTimesOf(t *testing.T) {
	require.Equal(t, Times{Min: 1, Median: 3, Max: 100, Spread: 100 * 2 / 3.0, Trials: 5, Batch: 7},
		timesOf([]float64{100, 2, 4, 1, 3}, 7))
	require.Equal(t, Times{Min: 2, Median: 3, Max: 4, Spread: 100 * 2 / 3.0, Trials: 2, Batch: 1},
		timesOf([]float64{4, 2}, 1))
	require.Equal(t, Times{Min: 5, Median: 5, Max: 5, Trials: 1, Batch: 1}, timesOf([]float64{5}, 1))
	require.False(t, math.IsNaN(timesOf([]float64{0}, 1).Spread))
}

// A prediction includes its reliability.
func TestPrediction(t *testing.T) {
	r := sampleReport()
	require.Equal(t, "1 MiB takes 200.0 us (measured)", r.prediction(1<<20))
	require.Equal(t, "2 MiB takes 499.5 us", r.prediction(2<<20))
	require.Contains(t, r.prediction(25<<20),
		"us; 25 times the largest size measured, 1 MiB: a guess, for a better one give a larger -e")
	r.Rows[1].OutOfPlace.Median *= 2
	require.Contains(t, r.prediction(2<<20),
		"499.5 us; time/model is 2.97 at a size next to it: the model fits badly there")
	require.Contains(t, r.prediction(64<<10), "time/model is 2.97")
	require.Contains(t, r.prediction(16), "time/model is 2.97", "between the first two")
	r.Rows[1].OutOfPlace.Median /= 8
	require.Contains(t, r.prediction(64<<10), "time/model is 0.37")
}

// A model needs two sizes and two ranks.
func TestNoModel(t *testing.T) {
	one, two := []size{{8, 2}}, []size{{8, 2}, {16, 4}}
	require.Empty(t, Config{}.noModel(one, 1))
	require.Empty(t, Config{Predict: 8}.noModel(one, 2), "measured")
	require.Empty(t, Config{Predict: 32}.noModel(two, 2))
	require.Contains(t, Config{Predict: 32}.noModel(one, 2), "one size, 8 bytes, makes no model")
	require.Contains(t, Config{Predict: 32}.noModel(two, 1), "one rank")
}
