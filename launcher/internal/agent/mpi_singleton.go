package agent

import (
	"fmt"
	"strings"
	"time"

	"gorun/launcher/internal/process"
)

// A rank that finds no launcher which its MPI library knows becomes a job of its own, 0 of 1, without a
// word. It is not to be told from a program that is linked with such a library and does without, as
// PyTorch may be: so what is said of it is what was seen.

// mpiLooks are the times, after the start of the ranks, at which the first rank of each program is looked
// at: when its libraries are loaded, when a Python program has imported its modules, once more for slow
// file systems, and when MPI_Init should be over.
var mpiLooks = []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second, 30 * time.Second}

// watchMPI looks from the first node on behalf of all.
func (j *running) watchMPI() {
	if !j.looksForMPI() {
		return
	}
	for i, after := range mpiLooks {
		j.timers.after(after, func() { j.lookForMPI(i == len(mpiLooks)-1) })
	}
}

// looksForMPI reports whether this node looks: alone a rank is 0 of 1.
func (j *running) looksForMPI() bool { return j.start.MPI.NumRanks > 1 && j.start.MPI.Node == 0 }

// lookForMPI notes which MPI library ranks have loaded. The last look tells of those that have not asked
// for their rank by then, and the end of a rank that was over before; so does a job that hangs.
func (j *running) lookForMPI(last bool) {
	if j.mpi.someBegan() {
		return
	}
	for _, rank := range j.firstOfApps() {
		pid := int(j.rank(rank).pid.Load())
		library := mpiLibrary(pid)
		j.timers.unlessOver(func() {
			if library != "" {
				j.mpi.noteLibrary(rank, library)
			}
			if last {
				j.mpi.warnSingleton(rank)
			}
		})
	}
}

// firstOfApps is one rank of each program.
func (j *running) firstOfApps() (ranks []int) {
	seen := map[int]bool{}
	for _, row := range j.start.Ranks {
		if !seen[row.App] {
			seen[row.App] = true
			ranks = append(ranks, row.Rank)
		}
	}
	return ranks
}

// mpiLibrary is the MPI library that a process has loaded, "" for none. PyTorch, which may be built with
// one, uses it only when it is told to.
func mpiLibrary(pid int) string {
	library := process.Mapped(pid, "libmpi.so", "libmpich.so", "libmpi_", "libmpicxx.so")
	if library == "" || process.Mapped(pid, "libtorch_cpu.so") != "" && process.Mapped(pid, "MPI.") == "" {
		return ""
	}
	return library
}

func (m *mpi) noteLibrary(rank int, library string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.libraries == nil {
		m.libraries = map[int]string{}
	}
	m.libraries[rank] = library
}

// warnSingleton tells of a rank that has an MPI library and has not asked for its rank, once.
func (m *mpi) warnSingleton(rank int) {
	m.mu.Lock()
	library := m.libraries[rank]
	due := library != "" && len(m.states) == 0 && !m.warned
	m.warned = m.warned || due
	m.mu.Unlock()
	if due {
		m.job.agent.notice("rank %d has loaded %s%s and has not asked gorun for its rank: fine as long as it does not call MPI_Init; if it has, it runs as 0 of 1: %s", rank, library, family(library), m.remedy(library))
	}
}

// Families of MPI libraries, as far as the name of a file tells.
const (
	mpichABI = "MPICH, Intel MPI or MVAPICH"
	openMPI  = "Open MPI"
	cray     = "Cray MPICH"
)

func familyOf(library string) string {
	switch {
	case strings.HasPrefix(library, "libmpi_cray"), strings.HasPrefix(library, "libmpi_gnu"), strings.HasPrefix(library, "libmpi_intel"), strings.HasPrefix(library, "libmpi_nvidia"):
		return cray
	case strings.HasPrefix(library, "libmpich"), strings.HasPrefix(library, "libmpi.so.12"), strings.HasPrefix(library, "libmpicxx"):
		return mpichABI
	case strings.HasPrefix(library, "libmpi.so."):
		return openMPI
	}
	return ""
}

func family(library string) string {
	if f := familyOf(library); f != "" {
		return " (" + f + ")"
	}
	return ""
}

// remedy says why the rank was not served, as far as that can be told, and what to do.
func (m *mpi) remedy(library string) string {
	f, wish := familyOf(library), m.wish
	switch {
	case wish.Why != "":
		return fmt.Sprintf("gorun serves no MPI here: %s", wish.Why)
	case f == openMPI && !wish.PMIx:
		return "it speaks PMIx, which is not served: leave --mpi out"
	case f == mpichABI && !wish.PMI:
		return "it speaks PMI, which is not served: leave --mpi out"
	case f == openMPI:
		return "Open MPI before 4 is not served, and MPI_Init of later ones may come yet; else start it by its own mpirun"
	case f == cray:
		return "Cray's libpmi does not speak the open PMI: build the program with MPICH, whose ABI it shares, or start it by srun or aprun"
	case f == mpichABI:
		return "the library was built for another launcher's protocol (mpichversion says which): start it by that one"
	}
	return "gorun serves the families of MPICH and of Open MPI; start it by its own mpiexec"
}
