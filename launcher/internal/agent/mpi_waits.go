package agent

import (
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/internal/spec"
	"gorun/rendezvous/world"
)

// waits returns the ranks that this node's ranks wait for in MPI, as far as the servers here know.
func (m *mpi) waits() map[int]*spec.MPIWait {
	m.serversMu.Lock()
	servers := m.existingServers()
	m.serversMu.Unlock()
	found := map[int]*spec.MPIWait{}
	for _, s := range servers {
		for _, w := range s.Waits() {
			wait := m.waitFor(w.For)
			wait.Spawns = w.Spawns
			for _, p := range w.Waiting {
				found[m.rank(p)] = wait
			}
		}
	}
	return found
}

// waitFor returns a wait for the missing ranks that have not called MPI_Init, or for all if they have.
func (m *mpi) waitFor(missing []world.Proc) *spec.MPIWait {
	var begun, absent []int
	for _, p := range missing {
		rank := m.rank(p)
		if m.state(rank) == nil && m.job.rank(rank) != nil { // unknown for ranks of other nodes
			absent = append(absent, rank)
		} else if rank >= 0 {
			begun = append(begun, rank)
		}
	}
	slices.Sort(begun)
	slices.Sort(absent)
	if len(absent) > 0 {
		return &spec.MPIWait{For: absent, Init: true}
	}
	return &spec.MPIWait{For: begun}
}

// watchMPIWaits reports once that ranks have waited long for others to call MPI_Init. It starts when the first rank
// of this node has. Other waits, such as in MPI_Finalize, may take long legitimately.
func (j *job) watchMPIWaits() {
	if limit := j.start.StoreReport; limit > 0 && j.start.MPI.NumRanks > 1 {
		w := &stallDetector{job: j, limit: limit, progress: func() (absent []int64) {
			for _, rank := range j.absentFromMPI() {
				absent = append(absent, int64(rank))
			}
			return absent
		}}
		w.report = func(from, to cpuSample) {
			if absent := j.absentFromMPI(); len(absent) > 0 {
				j.agent.notice("ranks have waited %s in MPI_Init for %s, which may still call it (--store-report)",
					limit, j.describeAbsent(absent, from, to))
			}
		}
		w.watch()
	}
}

// absentFromMPI returns the ranks that others wait for in MPI_Init.
func (j *job) absentFromMPI() (ranks []int) {
	for _, w := range j.mpi.waits() {
		if w.Init {
			ranks = append(ranks, w.For...)
		}
	}
	slices.Sort(ranks)
	return slices.Compact(ranks)
}

// describeAbsent describes the first ranks and counts the others.
func (j *job) describeAbsent(ranks []int, from, to cpuSample) string {
	const most = 3
	var list []string
	for _, rank := range ranks[:min(len(ranks), most)] {
		a := j.state(rank, from, to)
		list = append(list, fmt.Sprintf("rank %d (pid %d, %s)", rank, a.PID, a.State))
	}
	if rest := len(ranks) - most; rest > 0 {
		list = append(list, fmt.Sprintf("and %d more", rest))
	}
	return strings.Join(list, ", ")
}
