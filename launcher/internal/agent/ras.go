package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/ras"
	"gorun/launcher/internal/wire"
)

const (
	rasTime = 6 * time.Second        // for all queries; NCCL takes 4 s if a rank is stopped
	rasGap  = 500 * time.Millisecond // between two queries, whose difference shows progress
)

// NCCL's variables for its RAS port. Without them a job shares NCCL's default port with others on the host.
const (
	varRASAddr   = "NCCL_RAS_ADDR"
	varRASEnable = "NCCL_RAS_ENABLE"
)

// rasAddr returns the RAS address of this node's ranks; "": none. own is false if it may be another job's.
func (j *job) rasAddr() (addr string, own bool) {
	rows := j.rows()
	if len(rows) == 0 {
		return "", false
	}
	value := func(name string) string {
		if v := lookup(rows[0].Env, name); v != "" {
			return v
		}
		return lookup(j.start.Common, name)
	}
	if value(varRASEnable) == "0" {
		return "", false
	}
	if addr = value(varRASAddr); addr != "" {
		return addr, true
	}
	return ras.DefaultAddr, false
}

// Reasons for no answer.
var (
	errRASOff  = errors.New("no rank on this node serves NCCL's status: NCCL_RAS_ENABLE is 0, or the node has no ranks")
	errRASNone = errors.New("no rank listens there: no rank has started NCCL, or NCCL is older than 2.24 (RCCL has no " +
		"such port), or the program sets NCCL_RAS_ADDR itself")
	errRASOther = errors.New(
		"NCCL of another job answers there: this job's ranks have no NCCL_RAS_ADDR of their own")
)

// queryRAS returns NCCL's status of all ranks, or of those on this node, as JSON. It takes rasTime at most.
func (j *job) queryRAS(all bool) (text []byte, err error) {
	addr, own := j.rasAddr()
	if addr == "" {
		return nil, errRASOff
	}
	ctx, cancel := context.WithTimeout(context.Background(), rasTime)
	defer cancel()
	status, err := ras.Query(ctx, addr)
	if errors.Is(err, unix.ECONNREFUSED) {
		return nil, errRASNone
	}
	if err != nil {
		return nil, err
	}
	if found := status.AssignWorldRanks(j.worldRank()); !found && !own {
		return nil, errRASOther
	}
	time.Sleep(rasGap)
	if later, err := ras.Query(ctx, addr); err == nil {
		later.AssignWorldRanks(j.worldRank())
		later.Compare(&status)
		status = later
	}
	if !all {
		status.DropUnassigned()
	}
	return json.Marshal(status)
}

// sendRAS answers a Usage frame with NCCL's status.
func (j *job) sendRAS(request wire.Usage) {
	m := wire.Used{Call: request.Call}
	m.RASAddr, _ = j.rasAddr()
	var err error
	if m.RAS, err = j.queryRAS(request.All); err != nil {
		m.RASError = err.Error()
	}
	m.At = time.Now()
	_ = j.agent.link.Send(&m) // the head may be gone
}

// worldRank returns a function that finds the rank of a process; -1: it is not on this node.
func (j *job) worldRank() func(r *ras.Rank) int {
	here, leaders := probe.LocalAddresses(), map[int]int{}
	for _, r := range j.pids(j.rows()) {
		leaders[r.PID] = r.Rank
	}
	return func(r *ras.Rank) int {
		addr, err := netip.ParseAddr(r.Host)
		if addr = addr.Unmap(); err != nil || !addr.IsLoopback() && !here[addr.WithZone("")] {
			return -1
		}
		leader, err := unix.Getsid(r.PID)
		if rank, ok := leaders[leader]; ok && err == nil {
			return rank
		}
		return -1
	}
}
