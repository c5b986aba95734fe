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

// Ranks of one host meet in shared memory by files in /dev/shm, which a library removes when all
// have finalized. Of a job that ends otherwise they are the guard's to remove: what is named by the
// name of an MPI_COMM_WORLD, which no other job has, and what ranks name to their PMIx server.
// Other files have random names, and those only until everybody has opened them: ranks that are
// about to be ended are looked at for such.

// sharedMemory is where shm_open(3) makes files.
const sharedMemory = "/dev/shm/"

// expectFiles: ranks of a world begin MPI, and may be MPICH's.
func (m *mpi) noteWorldFiles(world string) {
	for _, prefix := range mpichFiles(world) {
		m.job.guard.AddNumbered(prefix)
	}
}

// mpichFiles are what names of files begin with by which ranks of MPICH from 4.2 on meet; the number
// of a node follows (MPIDI_POSIX_comm_bootstrap).
func mpichFiles(world string) []string {
	h := fnv.New32a() // MPIR_pmi_init makes it of PMI's kvsname or PMIx's namespace
	h.Write([]byte(world))
	return []string{
		fmt.Sprintf("%smpich_shm_%x_", sharedMemory, h.Sum32()),
		fmt.Sprintf("%smpich_vci_%x_", sharedMemory, h.Sum32()),
	}
}

// openMPIFiles are what names of Open MPI's files begin with; behind that they have the host, the user
// and a number of the job, and at last one of the rank or of the communicator.
var openMPIFiles = []string{"vader_segment.", "sm_segment.", "osc_sm.", "osc_rdma."}

// leaves hears of files that a rank wishes to have removed when it has ended. The server does that while
// there is one. Where each rank has an agent of its own, others of this host still use theirs when one is over.
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

// randomFiles are what random names begin with: MPICH's, Intel MPI's, UCX's.
var randomFiles = []string{"mpich_shar_tmp", "Intel_MPI_", "ucx_shm_posix_"}

// notePatience is how long ranks' signals wait for that. To be looked at, a process has to let go of its memory for a
// moment, and one that waits for a page of a file system which is gone never does.
const noteTimeout = 100 * time.Millisecond

// noteFiles has the guard remove what ranks have in shared memory under a random name. They are about
// to get a signal to end, and may be in MPI_Init.
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
	var lookers sync.WaitGroup
	for range maxParallelInspections {
		lookers.Go(func() {
			for pid := range pids {
				m.noteMappedFilesOf(pid)
			}
		})
	}
	noted := make(chan struct{})
	go func() { defer close(noted); lookers.Wait() }()
	limit := time.NewTimer(noteTimeout)
	defer limit.Stop()
	select {
	case <-noted:
	case <-limit.C:
	}
}

// noteFilesOf may come late: when the guard has been told to end there is nobody to tell.
func (m *mpi) noteMappedFilesOf(pid int) {
	for _, file := range m.hooks.mapped(pid, sharedMemory, randomFiles...) {
		if isOurFile(file) {
			m.job.timers.unlessOver(func() { m.job.guard.addPath(file) })
		}
	}
}

// isOurFile reports whether there is a regular file of this user's.
func isOurFile(file string) bool {
	st, err := os.Lstat(file)
	return err == nil && st.Mode().IsRegular() && st.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid())
}
