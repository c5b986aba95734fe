//go:build cgo

package bench

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/comm"
	"gorun/comm/internal/nccl/fake"
)

func TestMain(m *testing.M) {
	code := m.Run()
	fake.Remove()
	os.Exit(code)
}

// onFakeGPU returns a group of one rank on the fakes of NCCL and the CUDA runtime from the tests of
// comm/internal/nccl.
func onFakeGPU(t *testing.T) *comm.Group {
	t.Helper()
	dir := fake.Build(t)
	t.Setenv("COMM_NCCL_LIBRARY", dir)
	t.Setenv("COMM_CUDART_LIBRARY", dir)
	g, err := comm.Join(t.Context(), comm.WithRank(0, 1), comm.WithBackend("nccl"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

// Calls use GPU memory, and the check reads their results from there.
func TestVectorsOnGPU(t *testing.T) {
	g := onFakeGPU(t)
	for _, o := range operations {
		if o.name == "barrier" || o.name == "p2p" || o.name == "sendrecv" {
			continue
		}
		v, err := find(elements, "float32").vectors(g, Config{Operation: o.name, DType: "float32"}, 1000)
		require.NoError(t, err)
		for _, inPlace := range []bool{false, true} {
			if inPlace && !o.inPlace || !inPlace && !o.outOfPlace {
				continue
			}
			v.prepare(1000, inPlace)
			requireOneWrong(t, v)
		}
	}
}
