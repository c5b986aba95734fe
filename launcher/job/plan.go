package job

import (
	"cmp"
	"fmt"
	"slices"

	"gorun/env/plan"
	"gorun/placement"
	"gorun/rendezvous/world"
)

// Plan is every decision about a job and its ranks, made before the first rank starts.
type Plan struct {
	JobID   string          `json:"job"`               // the job's id, which is known when it starts
	RunID   string          `json:"run_id"`            // name of the job, as in torchrun
	Role    string          `json:"role"`              // the role of all ranks, as in torchrun
	Why     string          `json:"world_size_reason"` // the reason for the number of ranks
	Nodes   []Node          `json:"nodes"`             // the nodes in order; ranks refer to them by index
	Apps    []AppRun        `json:"programs"`          // the programs; ranks refer to them by index
	Ranks   []Rank          `json:"ranks"`             // the ranks by number
	Store   Store           `json:"store"`             // where ranks meet
	Common  []plan.Variable `json:"environment"`       // variables of all ranks
	Removed []plan.Removal  `json:"removed,omitempty"` // inherited variables that ranks do not get
	Logs    *Logs           `json:"logs,omitempty"`    // files for ranks' output; absent without files
	// Stdin says which ranks read the launcher's standard input.
	Stdin    string   `json:"stdin"`
	Grace    Seconds  `json:"grace_seconds"`             // the time that ranks have to stop
	Timeout  Seconds  `json:"timeout_seconds,omitempty"` // the job's time limit; absent: none
	Notes    []string `json:"notes,omitempty"`           // information about choices
	Warnings []string `json:"warnings,omitempty"`        // what is probably wrong
	// Unused are hosts without ranks; they are not part of the job.
	Unused []string `json:"unused_hosts,omitempty"`
	// Spares are hosts that take the places of lost ones.
	Spares []string `json:"spare_hosts,omitempty"`
	// MinNodes is the number of nodes with which the job goes on when others are lost; 0: it needs all.
	MinNodes int `json:"min_nodes,omitempty"`
	// Withheld are inherited variables that ranks on other hosts do not get.
	Withheld []string `json:"withheld,omitempty"`

	// Left are settings that gorun knows and leaves alone.
	Left []plan.Left `json:"left_alone,omitempty"`
	// Conf are settings that files on the nodes add; it is empty with [TuneOff].
	Conf []plan.ConfSetting `json:"-"`

	// HangTimeout is how long the job may make no progress; 0: no limit.
	HangTimeout Seconds `json:"hang_timeout_seconds,omitempty"`
	MaxRestarts int     `json:"max_restarts,omitempty"` // how often the job may be restarted
	// Attempt is the number of restarts before this attempt.
	Attempt int `json:"attempt,omitempty"`

	MPI         MPIMode `json:"mpi"`                         // protocol that gorun speaks to MPI programs
	MPIWhy      string  `json:"mpi_reason,omitempty"`        // why this protocol, or none
	WorldPerApp bool    `json:"world_per_program,omitempty"` // each program has its own MPI_COMM_WORLD
	// Offline reports that no host was contacted.
	Offline bool `json:"offline,omitempty"`
	// UsesMPI reports that a program is known to use an MPI library. Only a dry run looks.
	UsesMPI bool `json:"-"`
	// Worlds are the MPI_COMM_WORLDs: one, or one for each app, and those of spawned ranks.
	Worlds []world.World `json:"-"`

	supervision SupervisorConfig
}

// Node is one host of a job.
type Node struct {
	Name  string `json:"host"`  // name or address
	Ranks []int  `json:"ranks"` // ranks on it
	// CPUs are those that its ranks may use, as "0-3,8"; "" if they are not known.
	CPUs string `json:"cpus,omitempty"`
	// Machine is what was read of it for placement.
	Machine placement.Machine `json:"-"`
	// Fact is the node's index among the facts: hosts without ranks are no nodes.
	Fact int `json:"-"`
	// Remote and Endpoint are those of its facts.
	Remote bool `json:"remote,omitempty"`
	plan.Endpoint
	// Apps replaces Plan.Apps on a node that starts the programs differently.
	Apps []AppRun `json:"programs,omitempty"`
	// Env is common to its ranks, beside Plan.Common.
	Env []plan.Variable `json:"environment,omitempty"`
	// Role replaces Plan.Role where the node's command line names another one.
	Role string `json:"role,omitempty"`
	// Logs are the node's own in a job on several.
	Logs *NodeLogs `json:"logs,omitempty"`
}

// NodeLogs are the directories of one node's log files, within the job's: hosts may share a file system.
type NodeLogs struct {
	Dir  string `json:"directory"`      // of this attempt
	Base string `json:"base_directory"` // of the node
	// Names replace those of the job.
	Names []string `json:"name_patterns,omitempty"`
}

// Rank is one rank of a job.
type Rank struct {
	Process
	// GPU names the rank's GPUs: "3", "4,5", or UUIDs of parts. It can see others unless its environment hides them.
	GPU    string          `json:"visible_gpus,omitempty"`
	Reason string          `json:"reason,omitempty"` // for its CPUs
	GPUs   []placement.GPU `json:"-"`
	Env    []plan.Variable `json:"environment"` // beside Plan.Common and Node.Env

	threads int // that keep its CPUs busy, 0: not known
}

// CommonOf returns the variables that the ranks of a node share.
func (p *Plan) CommonOf(node int) []plan.Variable {
	return append(slices.Clip(p.Common), p.Nodes[node].Env...)
}

// AppsOf returns the job's programs as a node starts them.
func (p *Plan) AppsOf(node int) []AppRun {
	if own := p.Nodes[node].Apps; own != nil {
		return own
	}
	return p.Apps
}

// Hosts returns the names of the nodes' hosts.
func (p *Plan) Hosts() []string {
	names := make([]string, len(p.Nodes))
	for i, n := range p.Nodes {
		names[i] = n.Name
	}
	return names
}

// RoleOf returns the role of a node's ranks.
func (p *Plan) RoleOf(node int) string { return cmp.Or(p.Nodes[node].Role, p.Role) }

// LogsOf returns a node's log files; nil: none.
func (p *Plan) LogsOf(node int) *Logs {
	own := p.Nodes[node].Logs
	if own == nil {
		return p.Logs
	}
	l := *p.Logs
	l.Dir, l.Base = own.Dir, own.Base
	if own.Names != nil {
		l.Names = own.Names
	}
	return &l
}

// MarkerOf returns the id that marks a node's processes: of two nodes on one host, each ends its own.
func (p *Plan) MarkerOf(node int) string { return cmp.Or(p.partOf(node), p.JobID) }

// partOf returns the id of the job's part on a node, as secret as the job's own; "" with one node.
func (p *Plan) partOf(node int) string {
	const digits = 8
	if len(p.Nodes) < 2 || len(p.JobID) <= digits || p.JobID == AtStart {
		return ""
	}
	return fmt.Sprintf("%s%0*x", p.JobID[:len(p.JobID)-digits], digits, node)
}

// AtStart marks a value that is known only when the job starts.
const AtStart = "<at start>"

// Supervision returns the part that the supervisor needs.
func (p *Plan) Supervision() SupervisorConfig { return p.supervision }
