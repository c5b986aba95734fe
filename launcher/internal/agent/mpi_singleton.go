package agent

import (
	"fmt"
	"os"
	"slices"
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
var mpiCheckTimes = []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second, 30 * time.Second}

// watchMPI looks from the first node on behalf of all.
func (j *job) watchMPI() {
	if !j.checksForMPI() {
		return
	}
	for i, after := range mpiCheckTimes {
		j.timers.after(after, func() { j.checkForMPI(i == len(mpiCheckTimes)-1) })
	}
}

// looksForMPI reports whether this node looks: alone a rank is 0 of 1.
func (j *job) checksForMPI() bool { return j.start.MPI.NumRanks > 1 && j.start.MPI.Node == 0 }

// lookForMPI notes which MPI library ranks have loaded. The last look tells of those that have not asked
// for their rank by then, and the end of a rank that was over before; so does a job that hangs.
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

// firstOfApps is one rank of each program.
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

// mpiLibrary is the MPI library that a process has loaded, "" for none. PyTorch, which may be built with
// one, uses it only when it is told to.
func mpiLibrary(pid int) string {
	library := process.Mapped(pid, "libmpi.so", "libmpich.so", "libmpi_", "libmpicxx.so")
	if library == "" || process.Mapped(pid, "libtorch_cpu.so") != "" && process.Mapped(pid, "MPI.") == "" {
		return ""
	}
	return library
}

// library is an MPI library that was seen in a process.
type library struct {
	name string
	// child is the process, where it is not the rank's first one but one that this has started.
	child int
	// closed says that the process has not the descriptor by which it would ask for its rank.
	closed bool
}

// mostChildren bounds how many are looked into.
const maxChildren = 16

// libraryOf looks into the process of a rank. Of others that it has started only those tell anything
// that were to ask gorun and cannot; others may be ranks of another launcher's.
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

// lacksSocket reports whether a process that is there has something else at the descriptor of a rank's
// connection, or nothing.
func (m *mpi) lacksSocket(pid int) bool {
	if !m.cfg.Offered || m.cfg.PMIPort {
		return false
	}
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	if _, err := os.ReadDir(fds); err != nil { // gone, or not ours to look into
		return false
	}
	target, err := os.Readlink(fmt.Sprint(fds, "/", process.RankSocket))
	return err != nil || !strings.HasPrefix(target, "socket:")
}

func (m *mpi) noteLibrary(rank int, found library) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.libraries == nil {
		m.libraries = map[int]library{}
	}
	m.libraries[rank] = found
}

// warnSingleton tells of a rank that has an MPI library and has not asked for its rank, once.
func (m *mpi) warnSingleton(rank int) {
	m.mu.Lock()
	found := m.libraries[rank]
	due := found.name != "" && len(m.states) == 0 && !m.warned
	m.warned = m.warned || due
	m.mu.Unlock()
	who := fmt.Sprintf("rank %d", rank)
	if found.child != 0 {
		who = fmt.Sprintf("process %d, which rank %d has started,", found.child, rank)
	}
	switch {
	case due && found.closed && familyOf(found.name) == mpichABI:
		m.job.agent.notice("%s has loaded %s%s and cannot ask gorun for its rank: descriptor %d, which PMI_FD names, was "+
			"closed by what started it; --pmi-port does without it, and Python's subprocess.run(..., close_fds=False) leaves "+
			"it open", who, found.name, family(found.name), process.RankSocket)
	case due:
		m.job.agent.notice("%s has loaded %s%s and has not asked gorun for its rank: fine as long as it does not call "+
			"MPI_Init; if it has, it runs as 0 of 1: %s", who, found.name, family(found.name), m.remedy(found.name))
	}
}

// saysWhyItIsAlone reports whether the last lines of a rank have a complaint of MPICH's about its
// descriptor, for which the report has a hint.
func explainsSingleton(last []string) bool {
	return slices.ContainsFunc(last, func(line string) bool {
		return strings.Contains(line, "system msg for write_line failure")
	})
}

// Families of MPI libraries, as far as the name of a file tells.
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

// remedy says why the rank was not served, as far as that can be told, and what to do.
func (m *mpi) remedy(library string) string {
	f, cfg := familyOf(library), m.cfg
	switch {
	case cfg.Only != "":
		return "--mpi has gorun serve " + cfg.Only + " alone: leave it out"
	case cfg.Why != "":
		return fmt.Sprintf("gorun serves no MPI here: %s", cfg.Why)
	case f == openMPI:
		return "Open MPI before 4 is not served, and MPI_Init of later ones may come yet; else start it by its own mpirun"
	case f == cray:
		return "Cray's libpmi does not speak the open PMI: build the program with MPICH, whose ABI it shares, or start it " +
			"by srun or aprun"
	case f == mpichABI:
		return "the library was built for another launcher's protocol (mpichversion says which): start it by that one"
	}
	return "gorun serves the families of MPICH and of Open MPI; start it by its own mpiexec"
}
