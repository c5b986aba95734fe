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

// Intel MPI ends in MPI_Comm_spawn and MPI_Comm_accept by SIGSEGV, without a word, unless I_MPI_SPAWN=on was set: under
// its own mpiexec as well. It is not set for all ranks: with it one host's ranks do not keep to shared memory, but open
// the network, and each takes half as much memory again.

const intelSpawn = "I_MPI_SPAWN"

// noteFile notes by which library a rank has begun. Of one that has crashed nothing can be seen.
func (m *mpi) noteLibraryFile(p world.Proc) {
	r := m.job.rank(m.rank(p))
	if r == nil {
		return
	}
	file := process.MappedPath(int(r.pid.Load()), "libmpi.so")
	m.mu.Lock()
	defer m.mu.Unlock()
	m.file = file
}

// spawnHint is what may help a rank that has crashed in MPI, "" for nothing.
func (m *mpi) spawnHint(state *spec.RankMPI, environs ...[]string) string {
	if state == nil || state.Finalized || isPMIx(state.Protocol) {
		return ""
	}
	isSet := func(v string) bool { return strings.HasPrefix(v, intelSpawn+"=") }
	if slices.ContainsFunc(environs, func(e []string) bool { return slices.ContainsFunc(e, isSet) }) {
		return ""
	}
	m.mu.Lock()
	file := m.file
	m.mu.Unlock()
	if file == "" || !contains(file, intelSpawn) {
		return ""
	}
	return "if it was in MPI_Comm_spawn or MPI_Comm_accept: Intel MPI crashes there unless -x " + intelSpawn +
		"=on is given"
}

// contains reports whether a text stands in a file.
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
