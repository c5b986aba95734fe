package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// protocolsSeen are the protocols that ranks of this node have used.
type protocolsSeen struct{ pmi, pmix bool }

// mixtureCheckTimes are the delays after the use of both protocols before checking whether their ranks wait for
// each other. A script may legitimately run a program of each, one after the other.
var mixtureCheckTimes = []time.Duration{time.Second, 5 * time.Second, 20 * time.Second}

// noteProtocol records a rank's protocol and reports once that both are in use. mu is held.
func (m *mpi) noteProtocol(protocol string) bool {
	if isPMIx(protocol) {
		m.protocols.pmix = true
	} else {
		m.protocols.pmi = true
	}
	due := !m.mixtureReported && m.protocols.pmi && m.protocols.pmix
	m.mixtureReported = m.mixtureReported || due
	return due
}

func isPMIx(protocol string) bool { return strings.HasPrefix(protocol, "PMIx") }

// reportMixture makes the head end the job if ranks of both families wait for each other.
func (m *mpi) reportMixture() {
	waits := m.waits()
	for one, wait := range waits {
		for _, other := range wait.For {
			back, a, b := waits[other], m.state(one), m.state(other)
			if a == nil || b == nil || isPMIx(a.Protocol) || !isPMIx(b.Protocol) || back == nil ||
				!slices.Contains(back.For, one) {
				continue
			}
			m.send(wire.MPIEvent{Stuck: &spec.MPIStuck{
				Waiting: []int{one}, Missing: other, Initialized: true,
				Why: fmt.Sprintf(
					"rank %d uses MPICH or a relative (%s), rank %d uses Open MPI (%s): they cannot share an "+
						"MPI_COMM_WORLD; `--world app` gives each program its own",
					one, a.Protocol, other, b.Protocol),
			}})
			return
		}
	}
}
