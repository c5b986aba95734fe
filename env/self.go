package env

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ErrNotARank reports that the environment has no launcher's variables. A program that can also run alone
// checks for it with [errors.Is].
var ErrNotARank = errors.New("not started as a rank: RANK is not set; start it with gorun, torchrun, mpirun or srun")

// Rank identifies one process in its job.
type Rank struct {
	// Rank is the rank in the job, 0 to WorldSize-1.
	Rank      int
	WorldSize int

	// LocalRank is the rank on the node, or -1 if the launcher does not provide it.
	LocalRank int
	// LocalWorldSize is the number of ranks on the node, or 0 if the launcher does not provide it.
	LocalWorldSize int

	// Node is the number of the node, or -1 if the launcher does not provide it.
	Node int
	// NumNodes is the number of nodes, or 0 if the launcher does not provide it.
	NumNodes int

	// Attempt counts restarts, but not those for more nodes: 0 is the first attempt.
	Attempt int
	// Job is gorun's marker of the job, "outer:inner" for a nested job. It is "" under other launchers.
	Job string
	// RunID is torchrun's name for the job, or "".
	RunID string
	// Store is the host:port of the rendezvous store, or "" if the launcher provides none.
	Store string
	// Launcher is the kind of launcher whose variables were read: "gorun", "torchrun", "mpirun", "mpirun_rsh",
	// "mpiexec" or "srun". It is "" if RANK was set by hand.
	Launcher string
}

// Self returns this process's rank in its job, read from its environment.
//
// RANK and WORLD_SIZE take precedence. Otherwise Self tries the variables of Open MPI, MVAPICH, PMI launchers
// (MPICH, Intel MPI) and a Slurm step, in this order. Errors name the variable and its value. Without any of
// the variables the error is [ErrNotARank]. A WORLD_SIZE above 1 without RANK is an error, except in a Slurm
// batch script.
func Self() (Rank, error) {
	self, err := read(os.LookupEnv)
	if err != nil {
		return Rank{}, fmt.Errorf("env: %w", err)
	}
	return self, nil
}

// read is Self for any environment.
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

// alone distinguishes a process that is no rank from one with a missing RANK: each such process would assume a
// job of its own. Slurm batch scripts, which have SLURM_PROCID, export WORLD_SIZE for the steps that they
// start.
func (r *reader) alone() error {
	size := r.text(VarWorldSize)
	if size == "" || size == "1" || r.has("SLURM_PROCID") {
		return ErrNotARank
	}
	return fmt.Errorf(
		"%s=%s is set and %s is not: set %[3]s in each process, or unset %[1]s to run one alone",
		VarWorldSize, size, VarRank)
}

// reader looks up variables and keeps the first error.
type reader struct {
	lookup func(string) (string, bool)
	err    error
}

// text returns a variable's value; an empty variable counts as unset.
func (r *reader) text(name string) string {
	value, _ := r.lookup(name)
	return value
}

func (r *reader) has(name string) bool { return name != "" && r.text(name) != "" }

// number returns a required variable as a non-negative number.
func (r *reader) number(name string) int {
	if !r.has(name) {
		r.fail(fmt.Errorf("%s is not set, but other variables of a rank are", name))
		return 0
	}
	return r.optional(name, 0)
}

// optional returns a variable as a non-negative number if it is set.
func (r *reader) optional(name string, absent int) int {
	if !r.has(name) {
		return absent
	}
	n, err := strconv.Atoi(r.text(name))
	if err != nil || n < 0 {
		r.fail(fmt.Errorf("%s=%q is not a number of 0 or more", name, r.text(name)))
		return absent
	}
	return n
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// place reads the numbers of one family.
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
		r.fail(fmt.Errorf("%s=%d must be less than %s=%d", f.rank, self.Rank, f.size, self.WorldSize))
	}
	return self
}

// launcher returns the launcher that set f's variables.
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

// contradict detects a launcher started inside a rank of gorun. gorun removes other launchers' variables, or
// sets them for the rank's MPI_COMM_WORLD, so different values come from an inner launcher. RANK is then the
// outer rank, the same for all inner ranks: guessing would make each of them rank 0.
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

// store returns the host:port of the store. gorun's own comes first: with --store=rank0, MASTER_PORT belongs
// to a different program.
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

// torchrunInside reports whether this process was started by a torchrun inside a rank of gorun.
// GORUN_JOB_STORE is then the outer job's, and ranks of several inner jobs would meet in it. gorun sets
// TORCHELASTIC_RUN_ID only if MASTER_PORT is its own store's port.
func (r *reader) torchrunInside() bool {
	if !r.has(VarJobStore) || !r.has(VarTorchelasticRunID) || !r.has(VarMasterPort) {
		return false
	}
	return !strings.HasSuffix(r.text(VarJobStore), ":"+r.text(VarMasterPort))
}

// joinHostPort is net.JoinHostPort without package net, which increases start-up time.
func joinHostPort(host string, port int) string {
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}
