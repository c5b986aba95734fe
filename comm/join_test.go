package comm_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/comm"
	"gorun/internal/testneeds"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// unset removes the launchers' variables from the environment until the test ends.
func unset(t *testing.T) {
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		for _, prefix := range []string{
			"RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "PMI_", "MPI_", "OMPI_", "SLURM_",
			"MV2_", "TORCHELASTIC_",
		} {
			if strings.HasPrefix(name, prefix) {
				t.Setenv(name, "")
				require.NoError(t, os.Unsetenv(name))
			}
		}
	}
}

func TestJoinAlone(t *testing.T) {
	unset(t)
	g, err := comm.Join(t.Context())
	require.NoError(t, err)
	require.Equal(t, "rank 0 of 1 (cpu)", g.String())
	data := []float64{1, 2}
	require.NoError(t, comm.AllReduce(t.Context(), g, data, data, comm.Avg))
	require.Equal(t, []float64{1, 2}, data)
	require.NoError(t, comm.Barrier(t.Context(), g))
	part, err := g.Split(t.Context(), 3, 0)
	require.NoError(t, err)
	require.NoError(t, part.Close())
	require.NoError(t, g.Close())
	require.NoError(t, g.Close())
}

func TestJoinRefuses(t *testing.T) {
	_, err := comm.Join(t.Context(), comm.WithRank(4, 4))
	require.EqualError(t, err, "comm: rank 4 of 4: ranks are numbered from 0")
	_, err = comm.Join(t.Context(), comm.WithRank(0, 1), comm.WithBackend("gpu"))
	require.ErrorContains(t, err, `"gpu" is no back end: take cpu, nccl or auto`)
	_, err = comm.Join(t.Context(), comm.WithRank(0, 2), comm.WithStore("nowhere"))
	require.ErrorContains(t, err, `nowhere`)
}

// Rank 0 serves the store if no other process does. The other ranks may start first.
func TestRankZeroServes(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String() // free after Close
	require.NoError(t, listener.Close())
	first, second := openAt(t, address, 3), openAt(t, address, 3) // the second joins while the first serves the store
	for _, groups := range [][]*comm.Group{first, second} {
		require.NoError(t, errors.Join(each(groups, barrier)...))
	}
	for _, g := range first {
		require.NoError(t, g.Close())
	}
	third := openAt(t, address, 3)
	require.NoError(t, errors.Join(each(append(second, third...), barrier)...))
}

// Names separate groups that are joined at the same time, even though rank 0 serves one store for all.
func TestJoinAtOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	var joins sync.WaitGroup
	failed := make(chan error, 12)
	for i := range 12 {
		joins.Go(func() {
			rank, name := i%3, fmt.Sprint("name ", i/3)
			g, err := comm.Join(t.Context(), comm.WithRank(rank, 3), comm.WithStore(address), comm.WithName(name),
				comm.WithTimeout(patience))
			if err == nil {
				sum := []int32{int32(1 + i/3)}
				err = comm.AllReduce(t.Context(), g, sum, sum, comm.Sum)
				if int(sum[0]) != 3*(1+i/3) {
					err = fmt.Errorf("%s: %d", name, sum[0])
				}
				err = errors.Join(err, g.Close())
			}
			failed <- err
		})
	}
	joins.Wait()
	for range 12 {
		require.NoError(t, <-failed)
	}
}

// A name can be used again in a store that contains the keys of the first group.
func TestJoinAgain(t *testing.T) {
	address := store(t)
	for range 3 {
		var joins sync.WaitGroup
		failed := make([]error, 3)
		for rank := range 3 {
			joins.Go(func() {
				g, err := comm.Join(t.Context(), comm.WithRank(rank, 3), comm.WithStore(address), comm.WithName("again"),
					comm.WithTimeout(patience))
				if err == nil {
					err = errors.Join(comm.Barrier(t.Context(), g), g.Close())
				}
				failed[rank] = err
			})
		}
		joins.Wait()
		require.NoError(t, errors.Join(failed...))
	}
}

func TestSixteenRanks(t *testing.T) {
	groups := open(t, 16)
	failed := each(groups, func(ctx context.Context, g *comm.Group) error {
		for _, n := range []int{1, 5000, 60_000} {
			data := make([]int64, n)
			for i := range data {
				data[i] = int64(g.Rank() + i)
			}
			if err := comm.AllReduce(ctx, g, data, data, comm.Sum); err != nil {
				return err
			}
			if data[n-1] != int64(120+16*(n-1)) {
				return fmt.Errorf("%d of %d elements", data[n-1], n)
			}
		}
		return nil
	})
	require.NoError(t, errors.Join(failed...))
}

// Ranks that waited name the late ranks.
func TestLateJoin(t *testing.T) {
	address := store(t)
	var joins sync.WaitGroup
	failed := make([]error, 4)
	for _, rank := range []int{0, 2} {
		joins.Go(func() {
			_, failed[rank] = comm.Join(t.Context(), comm.WithRank(rank, 4), comm.WithStore(address), comm.WithName("late"),
				comm.WithTimeout(3*time.Second))
		})
	}
	joins.Wait()
	for _, rank := range []int{0, 2} {
		require.EqualError(t, failed[rank], `comm: join: rank `+fmt.Sprint(rank)+` of 4: ranks 1 and 3 did not come: `+
			`not all ranks came within 3s to the group with the name "late"`)
	}
}

// After rank 0, which serves the store, closes the parent group, the parts can still be split.
func TestSplitOutlivesItsParent(t *testing.T) {
	failed := each(open(t, 4), func(ctx context.Context, g *comm.Group) error {
		half, err := g.Split(ctx, g.Rank()%2, 0)
		if err != nil {
			return err
		}
		defer half.Close()
		if err := g.Close(); err != nil {
			return err
		}
		again, err := half.Split(ctx, 0, -half.Rank())
		if err != nil {
			return err
		}
		defer again.Close()
		if again.Rank() != 1-half.Rank() {
			return fmt.Errorf("rank %d became %d", half.Rank(), again.Rank())
		}
		return comm.Barrier(ctx, again)
	})
	require.NoError(t, errors.Join(failed...))
}

// Without cgo, comm and the packages that import it build, and Join returns an error that mentions cgo.
func TestWithoutCgo(t *testing.T) {
	t.Setenv("CGO_ENABLED", "0")
	program := filepath.Join(t.TempDir(), "hello")
	// list -export compiles without linking
	for _, what := range [][]string{{"list", "-export", "./..."}, {"build", "-o", program, "./comm/testdata/hello"}} {
		// with the tag that make builds gorun with, for most is compiled then
		build := exec.Command("go", slices.Insert(what, 1, "-tags=urfave_cli_no_docs")...)
		build.Dir = testneeds.Repository(t)
		said, err := build.CombinedOutput()
		require.NoError(t, err, "%s", said)
	}
	said, err := exec.Command(program).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said),
		"comm: this program was built without cgo, which collectives need: build it with CGO_ENABLED=1 and a C compiler")
}
