package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"gorun/launcher/internal/spec"
)

func TestRanksThatCannotBeginTogetherEndTheJob(t *testing.T) {
	s, _ := NewSupervisor(SupervisorConfig{Nodes: [][]int{{0, 1}}, StartedAt: time.Unix(1, 0), Grace: time.Second})
	s.Next(Running{PIDs: map[int]int{0: 10, 1: 11}})
	assert.NotEmpty(t,
		s.Next(MPIStuck{
			MPIStuck: spec.MPIStuck{Waiting: []int{0}, Missing: 1, Initialized: true, Why: "they cannot"},
			At:       time.Unix(2, 0),
		}))
	r := s.Result()
	assert.Equal(t, CauseStuck, r.Cause)
	assert.Equal(t, exitMPI, r.ExitCode)
	assert.Equal(t, "they cannot", r.Text)
	assert.Equal(t, &spec.MPIStuck{Waiting: []int{0}, Missing: 1, Initialized: true, Why: "they cannot"}, r.Stuck)
	assert.Empty(t, r.Hint, "it is no rank that ended")
}

// The node of the waiting ranks may not know the MPI state of a rank on another node.
func TestARankOfAnotherNodeHadBegunMPI(t *testing.T) {
	s, _ := NewSupervisor(SupervisorConfig{Nodes: [][]int{{0}, {1}}, StartedAt: time.Unix(1, 0), Grace: time.Second})
	s.Next(Running{PIDs: map[int]int{0: 10, 1: 11}})
	s.Next(Exited{Exit: spec.Exit{Rank: 1, MPI: &spec.RankMPI{Protocol: "PMI-1", Finalized: true}, At: time.Unix(2, 0)}})
	s.Next(MPIStuck{MPIStuck: spec.MPIStuck{Waiting: []int{0}, Missing: 1}, At: time.Unix(2, 0)})
	assert.Equal(t, "rank 0 waits in MPI for rank 1, which has ended (exit code 0)", s.Result().Text)
}
