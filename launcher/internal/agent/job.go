package agent

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gorun/launcher/internal/output"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/process/cgroup"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/tcpstore"
)

// job is one attempt of the job on this node, from the Start frame until nothing is left of it.
//
// newJob sets the fields of the first group; they do not change afterwards. The embedded structs say who may use
// them.
type job struct {
	agent   *Agent
	start   wire.Start
	store   *tcpstore.Server // nil: another node serves it
	refused error            // why this node starts no ranks; nil: it does
	since   process.Ticks    // before the first rank of the attempt
	display *display         // nil: the head shows output
	plane   *exchange.Node   // nil: MPI is not offered
	mpi     *mpi

	lifecycle
	processes
	jobFiles
	flow
	background

	roster   atomic.Pointer[roster] // read by anyone, replaced under startGate
	signals  signals
	spawns   spawns
	watchdog watchdog // of the goroutine that reads its pipe
}

// lifecycle is how far the attempt has come. It is safe for concurrent use.
type lifecycle struct {
	startDone     chan struct{} // closed when the first ranks were started, or could not be
	rankStart     time.Time     // when the first rank's start began
	startGate     startGate
	ended         sync.Once
	endRequested  atomic.Bool // by a Cleanup frame
	cleanedUp     atomic.Bool // nothing is left, another attempt may start
	killSweep     atomic.Bool // a sweep after a Kill frame is running
	reapScheduled atomic.Bool
	hurry         chan struct{} // closed when ranks that are being started are about to end
	hurryUp       func()        // closes it
	passingOn     atomic.Bool   // passOnSoon was called and will act
}

// startGate is held while ranks are started or reaped. It is closed when the job ends; neither happens any more then.
type startGate struct {
	sync.Mutex
	closed bool // guarded by the mutex
}

// processes are the ranks' processes and what controls them. newJob sets guard and group, and startRanks the others
// before it starts a rank; later they are only read. Their methods are safe for concurrent use.
type processes struct {
	guard       *guard
	group       *process.Group
	cgroup      atomic.Pointer[cgroup.Group] // nil: none; read also while ranks are being started
	oom         process.OOMKills
	mains       process.MainThreads
	bindNotices bindNotices
}

// jobFiles are files that ranks or the agent write. startRanks opens them before it starts a rank, and end closes them;
// in between they are only read, except that privateDir has a mutex.
type jobFiles struct {
	logs       *output.Logs // nil: none
	logRoot    *os.Root     // directory of logs on a node that joined; nil: their paths are absolute
	redirected []*os.File   // of streams, to close once the ranks have them
	privateDir privateDir
	dumps      []string // the ranks' variables for PyTorch's flight recorder
}

// flow is the ranks' input and output. It is safe for concurrent use.
type flow struct {
	stdin   *stdin
	credit  *credit
	open    countdown    // open output streams, plus one while ranks are being started
	printed atomic.Int64 // bytes of output
}

// background is what runs later or concurrently, and what waits to be sent. It is safe for concurrent use; end
// stops all of it.
type background struct {
	timers   timers
	reports  reports
	counters atomic.Pointer[map[string]int64] // of the network's errors, soon after the start; nil: not read
	// collecting are collections of evidence: what they read remains until they have ended.
	collecting reports
	endings    *endings
	queries    atomic.Int32 // being answered
}

// rank is the state of one rank. Except for row and dir it is safe for concurrent use.
type rank struct {
	row      wire.Row
	dir      string                     // working directory; "": the agent's
	pid      atomic.Int32               // 0: not started
	end      atomic.Pointer[spec.Exit]  // nil: running
	reported atomic.Bool                // the head knows of its end
	streams  atomic.Int32               // open output streams
	printed  atomic.Int64               // bytes of output
	expired  atomic.Pointer[string]     // scope of the PyTorch timer that ended it
	helpers  atomic.Bool                // have not got the signal that its leaders got
	query    atomic.Pointer[stackQuery] // pending
}

func newJob(a *Agent, s wire.Start) *job {
	j := &job{agent: a, start: s, store: a.store.server, since: process.Now()}
	j.hurry = make(chan struct{})
	j.hurryUp = sync.OnceFunc(func() { close(j.hurry) })
	j.startDone, j.guard, j.signals.engine = make(chan struct{}), newGuard(), &a.engine
	j.group = process.NewGroup(sink{j})
	j.credit = newCredit(s.Window, j.group)
	j.addRanks(s.Ranks, s.Apps)
	j.display = j.newDisplay()
	if s.MPI.Offered {
		j.plane = j.newPlane(s.MPI.Node)
	}
	j.mpi, j.endings, j.stdin = j.newMPI(), &endings{job: j}, newStdin(j)
	return j
}

// handle handles a frame for a running job.
func (j *job) handle(f wire.Frame) error {
	switch f.Type {
	case wire.TypeSignal, wire.TypeKill, wire.TypeCleanup:
		j.hurryUp()
	}
	switch f.Type {
	case wire.TypeSignal:
		return do(f, j.onSignal)
	case wire.TypeInspect:
		return do(f, func(i wire.Inspect) { j.answerQuery(func(done func()) { j.inspect(i, done) }) })
	case wire.TypeUsage:
		return do(f, j.query)
	case wire.TypeGrow:
		return with(f, j.grow)
	case wire.TypeSpawned:
		return do(f, j.spawnAnswered)
	case wire.TypeSuspend:
		return j.suspend()
	case wire.TypeKill:
		j.timeOver()
	case wire.TypeCredit:
		return do(f, func(c wire.Credit) { j.credit.add(c.Stream, c.Bytes) })
	case wire.TypeStdin:
		rank, _, p, err := f.Stream()
		if err == nil {
			err = j.stdin.write(rank, p)
		}
		return err
	case wire.TypeResize:
		return do(f, func(r wire.Resize) { j.group.ResizePTYs(r.Rows, r.Cols) })
	case wire.TypeCleanup:
		return do(f, func(e wire.Cleanup) {
			if !j.endRequested.Swap(true) {
				go j.finish(e.Grace)
			}
		})
	}
	return nil
}
