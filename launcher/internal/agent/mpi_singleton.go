package agent

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"gorun/launcher/internal/process"
)

// A rank whose MPI library does not find its launcher silently becomes a singleton, rank 0 of 1. It cannot be
// distinguished from a program that is linked with MPI but does not use it, as PyTorch may be; so warnings say only
// what was observed.

// mpiCheckTimes are the delays after the start before the first rank of each program is inspected: its libraries are
// loaded; a Python program has imported its modules; the same on slow file systems; MPI_Init should be over.
var mpiCheckTimes = []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second, 30 * time.Second}

// watchMPI schedules the checks, on the first node only.
func (j *job) watchMPI() {
	if !j.checksForMPI() {
		return
	}
	for i, after := range mpiCheckTimes {
		j.timers.after(after, func() { j.checkForMPI(i == len(mpiCheckTimes)-1) })
	}
}

// checksForMPI reports whether this node checks. A single rank is always 0 of 1.
func (j *job) checksForMPI() bool { return j.start.MPI.NumRanks > 1 && j.start.MPI.Node == 0 }

// checkForMPI records which MPI library ranks have loaded. The last check warns of ranks that have not called
// MPI_Init; so do the exit of a rank before that, and a hang.
func (j *job) checkForMPI(last bool) {
	if j.mpi.anyBegan() {
		return
	}
	for _, rank := range j.firstOfApps() {
		found := j.mpi.libraryOf(int(j.rank(rank).pid.Load()))
		j.timers.unlessOver(func() {
			if found.name != "" {
				j.mpi.noteLibrary(rank, found)
			}
			if last {
				j.mpi.warnSingleton(rank)
			}
		})
	}
}

// firstOfApps returns the first rank of each program.
func (j *job) firstOfApps() (ranks []int) {
	seen := map[int]bool{}
	for _, row := range j.start.Ranks {
		if !seen[row.App] {
			seen[row.App] = true
			ranks = append(ranks, row.Rank)
		}
	}
	return ranks
}

// mpiLibrary returns the MPI library that a process has loaded; "": none. PyTorch may be built with one but uses it
// only on request.
func mpiLibrary(pid int) string {
	library := process.Mapped(pid, "libmpi.so", "libmpich.so", "libmpi_", "libmpicxx.so")
	if library == "" || process.Mapped(pid, "libtorch_cpu.so") != "" && process.Mapped(pid, "MPI.") == "" {
		return ""
	}
	return library
}

// library is an MPI library that a process has loaded.
type library struct {
	name   string
	child  int  // pid, if it is not the rank's process but a child of that
	closed bool // the process does not have the rank's socket
}

// maxChildren bounds the number of children to inspect.
const maxChildren = 16

// libraryOf inspects a rank's process. It considers only children that were meant to use the rank's socket and do
// not have it; others may be ranks of another launcher.
func (m *mpi) libraryOf(pid int) library {
	if name := mpiLibrary(pid); name != "" {
		return library{name: name, closed: m.lacksSocket(pid)}
	}
	if !m.cfg.Offered || m.cfg.PMIPort {
		return library{}
	}
	children := process.Children(pid)
	for _, child := range children[:min(len(children), maxChildren)] {
		if !m.lacksSocket(child) || !process.HasVariable(child, fmt.Sprint("PMI_FD=", process.RankSocket)) {
			continue
		}
		if name := mpiLibrary(child); familyOf(name) == mpichABI {
			return library{name, child, true}
		}
	}
	return library{}
}

// lacksSocket reports whether a process exists and does not have a socket at the rank's descriptor.
func (m *mpi) lacksSocket(pid int) bool {
	if !m.cfg.Offered || m.cfg.PMIPort {
		return false
	}
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	if _, err := os.ReadDir(fds); err != nil { // gone, or not readable
		return false
	}
	target, err := os.Readlink(fmt.Sprint(fds, "/", process.RankSocket))
	return err != nil || !strings.HasPrefix(target, "socket:")
}

func (m *mpi) noteLibrary(rank int, found library) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.libraries[rank] = found
}

// warnSingleton warns once of a rank that has an MPI library and has not called MPI_Init.
func (m *mpi) warnSingleton(rank int) {
	m.mu.Lock()
	found := m.libraries[rank]
	due := found.name != "" && len(m.states) == 0 && !m.singletonWarned
	m.singletonWarned = m.singletonWarned || due
	m.mu.Unlock()
	who := fmt.Sprintf("rank %d", rank)
	if found.child != 0 {
		who = fmt.Sprintf("process %d, a child of rank %d,", found.child, rank)
	}
	switch {
	case due && found.closed && familyOf(found.name) == mpichABI:
		m.job.agent.notice("%s has loaded %s%s and cannot ask gorun for its rank: its parent closed descriptor %d "+
			"(PMI_FD); add `--pmi-port`, or start it by Python's subprocess.run(..., close_fds=False)",
			who, found.name, family(found.name), process.RankSocket)
	case due:
		m.job.agent.notice("%s has loaded %s%s and has not asked gorun for its rank; if it has called MPI_Init, it "+
			"runs as rank 0 of 1: %s", who, found.name, family(found.name), m.remedy(found.name))
	}
}

// explainsSingleton reports whether a rank's last lines have MPICH's error about its descriptor, for which the
// report has a hint.
func explainsSingleton(last []string) bool {
	return slices.ContainsFunc(last, func(line string) bool {
		return strings.Contains(line, "system msg for write_line failure")
	})
}

// Families of MPI libraries, by the name of the file.
const (
	mpichABI = "MPICH, Intel MPI or MVAPICH"
	openMPI  = "Open MPI"
	cray     = "Cray MPICH"
)

func familyOf(library string) string {
	switch {
	case strings.HasPrefix(library, "libmpi_cray"), strings.HasPrefix(library, "libmpi_gnu"),
		strings.HasPrefix(library, "libmpi_intel"), strings.HasPrefix(library, "libmpi_nvidia"):
		return cray
	case strings.HasPrefix(library, "libmpich"), strings.HasPrefix(library, "libmpi.so.12"),
		strings.HasPrefix(library, "libmpicxx"):
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

// remedy says why the rank may not have been served, and what to do.
func (m *mpi) remedy(library string) string {
	f, cfg := familyOf(library), m.cfg
	switch {
	case cfg.Only != "":
		return "`--mpi` limits gorun to " + cfg.Only + ": leave it out"
	case cfg.Why != "":
		return fmt.Sprintf("gorun does not serve MPI in this job: %s", cfg.Why)
	case f == openMPI:
		return "Open MPI 4 and later may still call MPI_Init; start older ones by their own mpirun"
	case f == cray:
		return "Cray's libpmi does not speak the open PMI: build the program with MPICH, which has the same ABI, or " +
			"start it by srun or aprun"
	case f == mpichABI:
		return "the library was built for another launcher (see `mpichversion`): start the program by that one"
	}
	return "gorun serves MPICH, its relatives and Open MPI; start this program by its own mpiexec"
}
