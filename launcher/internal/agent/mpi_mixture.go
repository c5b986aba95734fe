package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// speaks says which protocols ranks of this node have begun by.
type protocolsSeen struct{ pmi, pmix bool }

// mixtureLooks are the times after ranks have begun by both at which it is looked whether they wait for
// each other. A rank that is a script may well run a program of each, one after the other.
var mixtureCheckTimes = []time.Duration{time.Second, 5 * time.Second, 20 * time.Second}

// mixes notes by what a rank has begun, and reports, once, that ranks have by both. The lock is held.
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

// tellMixture ends the job where a rank of one family waits for one of the other, and that for it.
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
					"rank %d is a program of MPICH's family (it speaks %s), rank %d one of Open MPI's (%s): they cannot share an "+
						"MPI_COMM_WORLD; --world app gives each program a world of its own",
					one, a.Protocol, other, b.Protocol),
			}})
			return
		}
	}
}
