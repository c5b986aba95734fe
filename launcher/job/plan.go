package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gorun/env/plan"
	"gorun/launcher/internal/spec"
	"gorun/placement"
	"gorun/rendezvous/world"
)

// Facts are what a node said of itself, as far as the head believes it, and what the head knows of it.
type Facts struct {
	spec.Facts
	// Away says that the node is another host than the launcher's, and Joined that
	// somebody started gorun there by its own command line.
	Remote, Joined bool
	// Address is how other nodes reach this one, Interface the network interface
	// that has it ("eth0"); "": not known.
	Address, Interface string
	// Mbps is the speed of Interface's hardware in Mbit/s, 0: not known.
	Mbps int
}

// Plan is the decision about a job: everything about every rank, before the
// first exists.
type Plan struct {
	JobID   string          `json:"job"`
	RunID   string          `json:"run_id"`
	Role    string          `json:"role"`
	Why     string          `json:"why"` // how the number of ranks came about
	Nodes   []Node          `json:"nodes"`
	Apps    []AppRun        `json:"apps"`
	Ranks   []Rank          `json:"ranks"`
	Store   Store           `json:"store"`
	Common  []plan.Variable `json:"environment"` // what all ranks share
	Removed []plan.Removal  `json:"removed,omitempty"`
	Logs    *Logs           `json:"logs,omitempty"`
	// Stdin says which ranks read the launcher's standard input.
	Stdin string `json:"stdin"`
	// Grace is the time that ranks have to end, Timeout the job's deadline, 0: none.
	Grace   time.Duration `json:"grace_ns"`
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	// Notes are about what was chosen, Warnings about what is probably wrong.
	Notes    []string `json:"notes,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Unused are the hosts that have no rank and are no part of the job.
	Unused []string `json:"unused_hosts,omitempty"`
	// Withheld are inherited variables that ranks on other hosts do not get.
	Withheld []string `json:"withheld,omitempty"`

	// Left are settings that gorun knows and leaves alone.
	Left []plan.Left `json:"left,omitempty"`
	// Conf is what files of settings add on the nodes; it is empty with [TuneOff].
	Conf []plan.ConfSetting `json:"-"`

	// HangTimeout is how long nothing may be seen to go on, 0: for ever.
	HangTimeout time.Duration `json:"hang_timeout_ns,omitempty"`
	MaxRestarts int           `json:"max_restarts,omitempty"`
	// Attempt counts restarts.
	Attempt int `json:"attempt,omitempty"`

	// MPI is by which protocols ranks are served, and Worlds who begins MPI together: one
	// world, or one for each app.
	MPI         MPIMode       `json:"mpi"`
	MPIWhy      string        `json:"mpi_why,omitempty"`
	WorldPerApp bool          `json:"world_per_app,omitempty"`
	Worlds      []world.World `json:"-"`

	supervision SupervisorConfig
}

// Node is one host of a job.
type Node struct {
	Name  string `json:"name"`
	Ranks []int  `json:"ranks"`
	// CPUs are those that its ranks may use, as "0-3,8"; "" where nobody asked.
	CPUs string `json:"cpus,omitempty"`
	// Fact is the node's number among the facts: a host without ranks is no node.
	Fact int `json:"-"`
	// Away, Address and Interface are those of its facts.
	Remote    bool   `json:"away,omitempty"`
	Address   string `json:"address,omitempty"`
	Interface string `json:"interface,omitempty"`
	// Apps are the programs as this node starts them, where it does so otherwise than
	// Plan.Apps say.
	Apps []AppRun `json:"apps,omitempty"`
	// Env is what its ranks share beside Plan.Common.
	Env []plan.Variable `json:"environment,omitempty"`
	// Role is the node's own where its command line named another one than Plan.Role.
	Role string `json:"role,omitempty"`
	// Logs are the node's own in a job on several.
	Logs *NodeLogs `json:"logs,omitempty"`
}

// NodeLogs are the directories of one node's log files, within the job's: hosts may
// share a file system.
type NodeLogs struct {
	Dir  string `json:"dir"`  // of this attempt
	Base string `json:"base"` // of the node
}

// Rank is one rank of a job.
type Rank struct {
	Process
	// GPU is the one that is the rank's, or several: "3", "4,5", or UUIDs of parts.
	// Others can be seen unless they are hidden by the rank's environment.
	GPU    string `json:"gpu,omitempty"`
	Reason string `json:"reason,omitempty"` // why it has these CPUs
	// GPUs are those that GPU names.
	GPUs []placement.GPU `json:"-"`
	Env  []plan.Variable `json:"environment"` // what differs from Common

	threads int // that keep its CPUs busy, 0: not known
}

// CommonOf is what the ranks of a node share.
func (p *Plan) CommonOf(node int) []plan.Variable {
	own := p.Nodes[node].Env
	if len(own) == 0 {
		return p.Common
	}
	return slices.Concat(p.Common, own)
}

// AppsOf are the job's programs as a node starts them.
func (p *Plan) AppsOf(node int) []AppRun {
	if own := p.Nodes[node].Apps; own != nil {
		return own
	}
	return p.Apps
}

// RoleOf is the role of a node's ranks.
func (p *Plan) RoleOf(node int) string { return cmp.Or(p.Nodes[node].Role, p.Role) }

// LogsOf is what a node writes to files and where; nil: nothing.
func (p *Plan) LogsOf(node int) *Logs {
	own := p.Nodes[node].Logs
	if own == nil {
		return p.Logs
	}
	l := *p.Logs
	l.Dir, l.Base = own.Dir, own.Base
	return &l
}

// MarkerOf is the id that a node's processes carry: two nodes may be one host, and each
// ends its own.
func (p *Plan) MarkerOf(node int) string { return cmp.Or(p.partOf(node), p.JobID) }

// partOf is the id of the job's part on a node, as unguessable as the job's own; "" with
// one node.
func (p *Plan) partOf(node int) string {
	const digits = 8
	if len(p.Nodes) < 2 || len(p.JobID) <= digits || p.JobID == AtStart {
		return ""
	}
	return fmt.Sprintf("%s%0*x", p.JobID[:len(p.JobID)-digits], digits, node)
}

// AtStart stands for what only a start can tell.
const AtStart = "<at start>"

// Supervision is what the supervisor of this plan has to know.
func (p *Plan) Supervision() SupervisorConfig { return p.supervision }
