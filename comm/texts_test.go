package comm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/comm"
)

// Errors of a group that Split made name the ranks of the job too. Their fields contain the group's rank numbers.
func TestErrorsOfAPartNameRanksOfTheJob(t *testing.T) {
	parts := func(act func(ctx context.Context, part *comm.Group) error) error {
		failed := each(open(t, 4), func(ctx context.Context, g *comm.Group) error {
			part, err := g.Split(ctx, g.Rank()/2, 0)
			if err != nil {
				return err
			}
			defer part.Close()
			return act(ctx, part)
		})
		return failed[2]
	}
	err := parts(func(ctx context.Context, part *comm.Group) error {
		if part.Rank() == 1 {
			return part.Close()
		}
		return comm.Barrier(ctx, part)
	})
	require.EqualError(t, err,
		"comm: rank 1 of the group (rank 3 of the job) is lost: it closed the group (during Barrier)")
	var lost *comm.PeerError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, 1, lost.Rank)
	err = parts(func(ctx context.Context, part *comm.Group) error {
		return errors.Join([]caller{barrier, allReduce[int32](1, comm.Sum)}[part.Rank()](ctx, part), barrier(ctx, part))
	})
	require.ErrorContains(t, err, "rank 1 of the group (rank 3 of the job) called AllReduce of 1 int32 (sum)")
	err = parts(func(ctx context.Context, part *comm.Group) error {
		if part.Rank() == 1 {
			over, cancel := context.WithCancel(ctx)
			cancel()
			return comm.Barrier(over, part)
		}
		return comm.Barrier(ctx, part)
	})
	require.EqualError(t, err,
		"comm: rank 1 of the group (rank 3 of the job) ended the group: Barrier was given up: context canceled")
	err = parts(func(ctx context.Context, part *comm.Group) error {
		whole, err := part.Split(ctx, 0, -part.Rank())
		if err != nil {
			return err
		}
		defer whole.Close()
		if whole.Rank() == 0 {
			return whole.Close()
		}
		return comm.Barrier(ctx, whole)
	})
	require.ErrorContains(t, err, "rank 0 of the group (rank 3 of the job) is lost")
}

// A late rank gets the error that another rank recorded.
func TestLateRankIsAddressed(t *testing.T) {
	for name, act := range map[string]caller{
		"Barrier": func(ctx context.Context, g *comm.Group) error {
			return g.MonitoredBarrier(ctx, limit)
		},
		"AllReduce of 100000 int32 (sum)": allReduce[int32](100_000, comm.Sum),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			groups := open(t, 2, comm.WithTimeout(limit))
			err := act(t.Context(), groups[0])
			require.ErrorContains(t, err, "comm: "+name+": no answer from rank 1 within ") // 2s or more
			err = act(t.Context(), groups[1])
			require.Regexp(t, `^comm: rank 0 ended the group: it waited [0-9.]+s for this rank \(1\) in `+
				regexp.QuoteMeta(name)+"$", err.Error())
			var late *comm.TimeoutError
			require.ErrorAs(t, err, &late)
			require.Equal(t, []int{1}, late.Ranks)
			require.Equal(t, 0, late.By)
		})
	}
}

// A rank in a different call gets an error that names the other rank's call as such.
func TestCallOfAnotherRank(t *testing.T) {
	groups := open(t, 3)
	failed := each(groups, func(ctx context.Context, g *comm.Group) error {
		switch g.Rank() {
		case 0:
			return recv(7, 1)(ctx, g)
		case 1:
			return recv(8, 2)(ctx, g)
		}
		return g.Close()
	})
	const own = "comm: rank 2 is lost: it closed the group (during Recv of 8 int32 from rank 2)"
	require.EqualError(t, failed[1], own)
	require.ErrorContains(t, failed[0],
		"rank 2 is lost: it closed the group (noticed by rank 1 during Recv of 8 int32 from rank 2)")
}

// All calls on a nil group return an error.
func TestNilGroup(t *testing.T) {
	groups := open(t, 2)
	failed := each(groups, func(ctx context.Context, g *comm.Group) error {
		part, err := g.Split(ctx, g.Rank()-1, 0)
		if g.Rank() == 1 {
			return errors.Join(err, part.Close())
		}
		if part != nil {
			return errors.New("a group for a negative color")
		}
		return err
	})
	require.NoError(t, errors.Join(failed...))
	var none *comm.Group
	refused := map[string]error{}
	for name, call := range calls {
		// these derive their arguments from the group
		if name != "SendRecv" && !strings.HasSuffix(name, "V") && name != "Send" {
			refused[name] = call(4)(t.Context(), none)
		}
	}
	ctx, data, counts := t.Context(), make([]int32, 4), []int{4}
	refused["Send"], refused["Recv"] = comm.Send(ctx, none, data, 0), comm.Recv(ctx, none, data, 0)
	refused["SendRecv"] = comm.SendRecv(ctx, none, data, 0, data, 0)
	refused["AllGatherV"] = comm.AllGatherV(ctx, none, data, data, counts)
	refused["ReduceScatterV"] = comm.ReduceScatterV(ctx, none, data, data, counts, comm.Sum)
	refused["GatherV"], refused["ScatterV"] = comm.GatherV(ctx, none, data, data, counts, 0),
		comm.ScatterV(ctx, none, data, data, counts, 0)
	refused["AllToAllV"] = comm.AllToAllV(ctx, none, data, counts, data, counts)
	refused["MonitoredBarrier"] = none.MonitoredBarrier(ctx, time.Second)
	_, refused["Split"] = none.Split(ctx, 0, 0)
	_, refused["Allocate"] = comm.Allocate[int32](ctx, none, 1)
	_, refused["NewBucketer"] = comm.NewBucketer(ctx, none, comm.Avg, 0, data)
	_, refused["NewDeviceBuffer"] = comm.NewDeviceBuffer[int32](none, 1)
	for name, err := range refused {
		require.EqualError(t, err,
			"comm: "+name+": this rank is in no group: the *Group is nil, which is what Split gives for a negative color")
	}
	for name, work := range map[string]*comm.Work{
		"Barrier": comm.BarrierAsync(ctx, none), "AllReduce": comm.AllReduceAsync(ctx, none, data, data, comm.Sum),
		"Reduce": comm.ReduceAsync(ctx, none, data, data, comm.Sum, 0), "Broadcast": comm.BroadcastAsync(ctx, none, data, 0),
		"AllGather": comm.AllGatherAsync(ctx, none, data, data), "AllToAll": comm.AllToAllAsync(ctx, none, data, data),
		"ReduceScatter": comm.ReduceScatterAsync(ctx, none, data, data, comm.Sum),
	} {
		require.ErrorContains(t, work.Wait(), "comm: "+name+": this rank is in no group")
	}
	require.NoError(t, none.Close())
	require.Equal(t, []any{-1, 0, "", "no group"}, []any{none.Rank(), none.Size(), none.Backend(), none.String()})
}

// Errors name the function that the user called, not the functions that implement it.
func TestErrorsNameTheUsersCall(t *testing.T) {
	failed := each(open(t, 2), func(ctx context.Context, g *comm.Group) error {
		_, err := comm.NewBucketer(ctx, g, comm.Avg, 0, make([]float32, 5+g.Rank()))
		return err
	})
	for _, err := range failed {
		require.ErrorContains(t, err, "comm: NewBucketer, bucket 0: ranks disagree about call ")
		require.ErrorContains(t, err,
			"rank 0 called NewBucketer, bucket 0 of 20 bytes, rank 1 called NewBucketer, bucket 0 of 24 bytes")
	}
	failed = each(open(t, 2), func(ctx context.Context, g *comm.Group) error {
		return []caller{send(3, 1), recv(4, 0)}[g.Rank()](ctx, g)
	})
	require.EqualError(t, failed[1], "comm: ranks made calls that never meet: rank 1 called Recv of 4 int32 from rank "+
		"0, rank 0 called Send of 3 int32 to rank 1")
}

func TestClosedGroup(t *testing.T) {
	groups := open(t, 1)
	require.NoError(t, groups[0].Close())
	require.EqualError(t, barrier(t.Context(), groups[0]), "comm: the group is closed")
	require.EqualError(t, comm.BarrierAsync(t.Context(), groups[0]).Wait(), "comm: the group is closed")
}

// Join names the missing variable of an incomplete environment.
func TestJoinWithHalfAnEnvironment(t *testing.T) {
	for want, environ := range map[string][]string{
		"comm: env: WORLD_SIZE=2 is set and RANK is not": {"WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29677"},
		"comm: MASTER_ADDR=node1 is set, MASTER_PORT is not: " +
			"set both, or neither where all ranks are children of one process": {
			"WORLD_SIZE=2", "RANK=1", "MASTER_ADDR=node1",
		},
		"comm: MASTER_PORT=29677 is set, MASTER_ADDR is not: set both": {"WORLD_SIZE=2", "RANK=1", "MASTER_PORT=29677"},
	} {
		t.Run(want, func(t *testing.T) {
			unset(t)
			for _, entry := range environ {
				name, value, _ := strings.Cut(entry, "=")
				t.Setenv(name, value)
			}
			_, err := comm.Join(t.Context(), comm.WithTimeout(patience))
			require.ErrorContains(t, err, want)
		})
	}
}

// Ranks that wrapper scripts start find each other too.
func TestWrappedNeighboursMeet(t *testing.T) {
	unset(t)
	self, err := os.Executable()
	require.NoError(t, err)
	neighbours(t, exec.Command(self), exec.Command("sh", "-c", `sh -c '"$0"; true' "$0"; true`, self))
}

// The error of a rank without known siblings explains how ranks can meet.
func TestRankZeroIsNotFound(t *testing.T) {
	unset(t)
	t.Setenv("PMI_RANK", "1")
	t.Setenv("PMI_SIZE", "2")
	_, err := comm.Join(t.Context(), comm.WithName("apart"), comm.WithTimeout(10*time.Millisecond))
	require.EqualError(t, err,
		`comm: rank 0 did not come to the group with the name "apart": not all ranks came within 10ms; `+
			"MASTER_ADDR and MASTER_PORT are not set, so ranks look for each other as children of one launcher process: "+
			"in a wrapper script start the program by `exec ./prog`, or set both")
}

// A receiver gets sent data even after the sender has closed the group.
func TestSentBeforeClose(t *testing.T) {
	for name, hosts := range map[string]bool{"one host": false, "two hosts": true} {
		t.Run(name, func(t *testing.T) {
			groups := openEach(t, store(t), 2, func(rank int) []comm.Option {
				if !hosts {
					return nil
				}
				return []comm.Option{comm.WithKey(bytes.Repeat([]byte("k"), 32)), comm.WithHost(fmt.Sprint(rank))}
			})
			sent := []int32{1, 2, 3}
			require.NoError(t, comm.Send(t.Context(), groups[0], sent, 1))
			require.NoError(t, groups[0].Close())
			got := make([]int32, 3)
			require.NoError(t, comm.Recv(t.Context(), groups[1], got, 0))
			require.Equal(t, sent, got)
		})
	}
}

// A rank can send itself as much data as the buffer between ranks holds. A larger Send times out with an error.
func TestSendToOneself(t *testing.T) {
	t.Parallel()
	g := open(t, 1, comm.WithTimeout(limit))[0]
	sent, got := make([]byte, 128<<10), make([]byte, 128<<10)
	sent[5] = 7
	require.NoError(t, comm.Send(t.Context(), g, sent, 0))
	require.NoError(t, comm.Recv(t.Context(), g, got, 0))
	require.Equal(t, sent, got)
	err := comm.Send(t.Context(), g, make([]byte, 4<<20), 0)
	// 2s, or more on a busy machine
	require.ErrorContains(t, err, "comm: Send of 4194304 uint8 to rank 0: no answer from this rank (0) within ")
}
