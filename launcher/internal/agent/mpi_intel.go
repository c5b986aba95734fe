package agent

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/spec"
	"gorun/rendezvous/world"
)

// Intel MPI crashes with SIGSEGV in MPI_Comm_spawn and MPI_Comm_accept unless I_MPI_SPAWN=on is set, also under its own
// mpiexec. It is not set by default because it makes the ranks of a single host open the network, and use half as much
// memory again.

const intelSpawn = "I_MPI_SPAWN"

// noteLibraryFile records a rank's MPI library, which cannot be found after a crash.
func (m *mpi) noteLibraryFile(p world.Proc) {
	r := m.job.rank(m.rank(p))
	if r == nil {
		return
	}
	file := process.MappedPath(int(r.pid.Load()), "libmpi.so")
	m.mu.Lock()
	defer m.mu.Unlock()
	m.firstLibraryFile = file
}

// spawnHint returns a hint for a rank that has crashed in MPI; "": none.
func (m *mpi) spawnHint(state *spec.RankMPI, environs ...[]string) string {
	if state == nil || state.Finalized || isPMIx(state.Protocol) {
		return ""
	}
	isSet := func(v string) bool { return strings.HasPrefix(v, intelSpawn+"=") }
	if slices.ContainsFunc(environs, func(e []string) bool { return slices.ContainsFunc(e, isSet) }) {
		return ""
	}
	m.mu.Lock()
	file := m.firstLibraryFile
	m.mu.Unlock()
	if file == "" || !contains(file, intelSpawn) {
		return ""
	}
	return "add `-x " + intelSpawn + "=on` if it crashed in MPI_Comm_spawn or MPI_Comm_accept: Intel MPI needs it there"
}

// contains reports whether a file contains a text.
func contains(file, text string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	const step = 1 << 20
	buffer, kept := make([]byte, step+len(text)), 0
	for {
		n, err := io.ReadFull(f, buffer[kept:])
		have := buffer[:kept+n]
		if bytes.Contains(have, []byte(text)) {
			return true
		}
		if err != nil { // also at the end
			return false
		}
		kept = copy(buffer, have[len(have)-len(text):])
	}
}
