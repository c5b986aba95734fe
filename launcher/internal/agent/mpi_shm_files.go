package agent

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Ranks on one host share memory through files in /dev/shm, which their MPI library removes when all have called
// MPI_Finalize. If the job ends otherwise the guard removes them: files named after the job's MPI_COMM_WORLD, and files
// that ranks have registered with their PMIx server. Other files have random names, but exist only until all ranks have
// opened them; ranks that are about to be ended are inspected for these.

// sharedMemory is the directory of shm_open(3).
const sharedMemory = "/dev/shm/"

// noteWorldFiles guards the files of a world's ranks, in case they use MPICH.
func (m *mpi) noteWorldFiles(world string) {
	for _, prefix := range mpichFiles(world) {
		m.job.guard.AddNumbered(prefix)
	}
}

// mpichFiles returns the prefixes of MPICH's files (since 4.2); the number of a node follows
// (MPIDI_POSIX_comm_bootstrap).
func mpichFiles(world string) []string {
	h := fnv.New32a() // as MPIR_pmi_init hashes PMI's kvsname or PMIx's namespace
	h.Write([]byte(world))
	return []string{
		fmt.Sprintf("%smpich_shm_%x_", sharedMemory, h.Sum32()),
		fmt.Sprintf("%smpich_vci_%x_", sharedMemory, h.Sum32()),
	}
}

// openMPIFiles are the prefixes of Open MPI's files. The host, the user, and numbers of the job and of the rank or
// communicator follow.
var openMPIFiles = []string{"vader_segment.", "sm_segment.", "osc_sm.", "osc_rdma."}

// noteSharedFiles guards files that a rank has registered for removal. The server removes them while it runs. If
// each rank has its own agent, other ranks of this host may use theirs longer.
func (m *mpi) noteSharedFiles(files []string) {
	joined := m.job.agent.cfg.Joined
	alone := joined != nil && joined.Task != nil
	for _, file := range files {
		prefix := strings.TrimRight(file, "0123456789")
		known := slices.ContainsFunc(openMPIFiles, func(begin string) bool {
			rest, is := strings.CutPrefix(filepath.Base(prefix), begin)
			return is && rest != ""
		})
		switch {
		case !known || prefix == file || !strings.HasSuffix(prefix, "."):
		case !alone:
			m.job.guard.AddNumbered(prefix)
		case isOurFile(file):
			m.job.guard.addPath(file)
		}
	}
}

// randomFiles are the prefixes of random names: MPICH's, Intel MPI's and UCX's.
var randomFiles = []string{"mpich_shar_tmp", "Intel_MPI_", "ucx_shm_posix_"}

// noteTimeout bounds the delay of ranks' signals. Reading /proc/PID/maps takes a lock of the process, which a page
// fault on a dead file system holds forever.
const noteTimeout = 100 * time.Millisecond

// noteMappedFiles guards the files with random names that ranks have mapped. Call it before ranks get a signal to
// end, as they may be in MPI_Init.
func (m *mpi) noteMappedFiles() {
	if !m.anyBegan() {
		return
	}
	ranks := m.job.rankPIDs()
	pids := make(chan int, len(ranks))
	for _, pid := range ranks {
		pids <- pid
	}
	close(pids)
	var inspections sync.WaitGroup
	for range maxParallelInspections {
		inspections.Go(func() {
			for pid := range pids {
				m.noteMappedFilesOf(pid)
			}
		})
	}
	noted := make(chan struct{})
	go func() { defer close(noted); inspections.Wait() }()
	select {
	case <-noted:
	case <-time.After(noteTimeout):
	}
}

// noteMappedFilesOf may return after the end of the job, when nothing is guarded any more.
func (m *mpi) noteMappedFilesOf(pid int) {
	for _, file := range m.hooks.mapped(pid, sharedMemory, randomFiles...) {
		if isOurFile(file) {
			m.job.timers.unlessOver(func() { m.job.guard.addPath(file) })
		}
	}
}

// isOurFile reports whether a path is a regular file of this user.
func isOurFile(file string) bool {
	st, err := os.Lstat(file)
	return err == nil && st.Mode().IsRegular() && st.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid())
}
