package env

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ErrNotARank says that no launcher's variables are in the environment. A
// program that can also run alone tests for it with [errors.Is].
var ErrNotARank = errors.New("not started as a rank: RANK is not set; " +
	"start the program with gorun (torchrun, mpirun and srun will do)")

// Rank is the place of one process in its job.
type Rank struct {
	// Rank is the process's number in the job, 0 to WorldSize-1.
	Rank      int
	WorldSize int

	// LocalRank is its number on the node, -1 where the launcher did not say.
	LocalRank int
	// LocalWorldSize is the number of ranks on the node, 0 where the launcher did
	// not say.
	LocalWorldSize int

	// Node is the number of the node, -1 where the launcher did not say.
	Node int
	// NumNodes is the number of nodes, 0 where the launcher did not say.
	NumNodes int

	// Attempt counts restarts: 0 is the first attempt.
	Attempt int
	// Job is gorun's marker of the job, "outer:inner" for a job inside a job; ""
	// under other launchers.
	Job string
	// RunID is torchrun's name for the job, "" where there is none.
	RunID string
	// Store is host:port of the store in which the ranks meet, "" where the
	// launcher named none.
	Store string
	// Launcher is the kind of launcher whose variables were read: "gorun",
	// "torchrun", "mpirun", "mpirun_rsh", "mpiexec" or "srun"; "" where RANK was
	// set by hand.
	Launcher string
}

// Self returns the place of this process in its job, read from its environment.
//
// RANK and WORLD_SIZE decide where they are set. Otherwise the variables of Open
// MPI, of MVAPICH, of the launchers that speak PMI (MPICH, Intel MPI) and of a
// Slurm step are tried in this order. An error names the variable and its value;
// it is [ErrNotARank] where there is nothing to read. WORLD_SIZE above 1 without RANK
// is an error, except in a batch script of Slurm.
func Self() (Rank, error) {
	self, err := read(os.LookupEnv)
	if err != nil {
		return Rank{}, fmt.Errorf("env: %w", err)
	}
	return self, nil
}

// read is Self on any environment.
func read(lookup func(string) (string, bool)) (Rank, error) {
	r := reader{lookup: lookup}
	f, ok := r.family()
	if !ok {
		return Rank{}, r.alone()
	}
	self := r.place(f)
	self.Launcher = r.launcher(f)
	self.Attempt = r.optional(VarTorchelasticRestartCount, 0)
	self.Job = r.text(VarJob)
	self.RunID = r.text(VarTorchelasticRunID)
	self.Store = r.store()
	r.contradict(f, self)
	return self, r.err
}

// alone tells a process that is no rank from one whose RANK was forgotten: that would take itself for a job of its own,
// and so would its peers. Batch scripts of Slurm, which have SLURM_PROCID, export WORLD_SIZE for the steps that they
// start.
func (r *reader) alone() error {
	size := r.text(VarWorldSize)
	if size == "" || size == "1" || r.has("SLURM_PROCID") {
		return ErrNotARank
	}
	return fmt.Errorf(
		"%s=%s is set, %s is not: give each process its number, 0 to %[1]s-1, or unset %[1]s to run one alone",
		VarWorldSize, size, VarRank)
}

// reader looks variables up and keeps the first error.
type reader struct {
	lookup func(string) (string, bool)
	err    error
}

// text returns a variable's value; an empty variable counts as an absent one.
func (r *reader) text(name string) string {
	value, _ := r.lookup(name)
	return value
}

func (r *reader) has(name string) bool { return name != "" && r.text(name) != "" }

// number returns a variable that must be there and be a number from 0 on.
func (r *reader) number(name string) int {
	if !r.has(name) {
		r.fail(fmt.Errorf("%s is not set, although other variables of a rank are", name))
		return 0
	}
	return r.optional(name, 0)
}

// optional returns a variable that must be a number from 0 on if it is there.
func (r *reader) optional(name string, absent int) int {
	if !r.has(name) {
		return absent
	}
	n, err := strconv.Atoi(r.text(name))
	if err != nil || n < 0 {
		r.fail(fmt.Errorf("%s=%q is not a number from 0 on", name, r.text(name)))
		return absent
	}
	return n
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// place reads the numbers of one family of variables.
func (r *reader) place(f family) Rank {
	self := Rank{
		Rank:           r.number(f.rank),
		WorldSize:      r.number(f.size),
		LocalRank:      r.optional(f.localRank, -1),
		LocalWorldSize: r.optional(f.localSize, 0),
		Node:           r.optional(f.node, -1),
		NumNodes:       r.optional(f.nodes, 0),
	}
	if r.has(f.localPeers) {
		self.LocalWorldSize = strings.Count(r.text(f.localPeers), ",") + 1
	}
	if self.WorldSize == 1 && self.LocalRank < 0 {
		self.LocalRank, self.LocalWorldSize, self.Node, self.NumNodes = 0, 1, 0, 1
	}
	if self.Rank >= self.WorldSize {
		r.fail(fmt.Errorf("%s=%d is not below %s=%d", f.rank, self.Rank, f.size, self.WorldSize))
	}
	return self
}

// launcher names who set the variables of f.
func (r *reader) launcher(f family) string {
	switch {
	case f.rank != VarRank:
		return f.launcher
	case r.has(VarJob) && !r.torchrunInside():
		return "gorun"
	case r.has(VarTorchelasticRunID):
		return "torchrun"
	}
	return ""
}

// contradict finds a launcher that was started inside a rank of gorun. gorun
// removes the variables of other launchers, or says by them the rank's place in its
// MPI_COMM_WORLD; so whoever else set them came later, and then RANK is the number of the
// outer rank: the same for all ranks of the inner job. To guess here would be N times rank 0.
func (r *reader) contradict(f family, self Rank) {
	if f.rank != VarRank || self.Job == "" {
		return
	}
	for _, inner := range others {
		if !r.complete(inner) || r.ofWorld(inner) {
			continue
		}
		rank, size := r.optional(inner.rank, 0), r.optional(inner.size, 0)
		if rank != self.Rank || size != self.WorldSize {
			r.fail(fmt.Errorf("%s=%d of %d and %s=%d of %d disagree: %s was started inside a rank of gorun; "+
				"start it as `env -u %s %s …`", f.rank, self.Rank, self.WorldSize,
				inner.rank, rank, size, inner.launcher, f.rank, inner.launcher))
		}
	}
}

// store returns host:port of the store. gorun's own comes first: where
// MASTER_PORT is left to rank 0 it is another program's.
func (r *reader) store() string {
	if r.has(VarJobStore) && !r.torchrunInside() {
		return r.text(VarJobStore)
	}
	if !r.has(VarMasterAddr) || !r.has(VarMasterPort) {
		return ""
	}
	port := r.optional(VarMasterPort, 0)
	if r.err == nil && (port == 0 || port > 65535) {
		r.fail(fmt.Errorf("%s=%q is not a TCP port", VarMasterPort, r.text(VarMasterPort)))
	}
	return joinHostPort(r.text(VarMasterAddr), port)
}

// torchrunInside reports whether a torchrun that was started inside a rank of
// gorun started this process: then GORUN_JOB_STORE is the outer job's, and ranks
// of several inner jobs would meet in it. gorun sets TORCHELASTIC_RUN_ID only
// where MASTER_PORT is the port of its own store.
func (r *reader) torchrunInside() bool {
	if !r.has(VarJobStore) || !r.has(VarTorchelasticRunID) || !r.has(VarMasterPort) {
		return false
	}
	return !strings.HasSuffix(r.text(VarJobStore), ":"+r.text(VarMasterPort))
}

// joinHostPort is net.JoinHostPort without package net, which costs start-up time.
func joinHostPort(host string, port int) string {
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}
