package main

import (
	"errors"

	"gorun/cmd/gorun/internal/dialect"
)

// slurmRow is one of Slurm's options. letter and value may be empty.
type slurmRow struct{ letter, name, value, help string }

// optional is the value of an option that may have one after "=".
const optional = "[=]"

// Slurm's options: which nodes, which of their resources, how Slurm handles the job, and how it is submitted. The
// latter are not part of the script.
var (
	slurmHosts = []slurmRow{
		{"w", "nodelist", "LIST", "nodes that must be among them"},
		{"", "exclude", "LIST", "nodes that must not (Slurm's -x; gorun's -x gives ranks a variable)"},
		{"C", "constraint", "LIST", "features that nodes must have"},
		{"p", "partition", "LIST", "partition to run in, or several to choose from"},
		{"M", "clusters", "LIST", "clusters"},
		{"", "reservation", "NAME", "a reservation"},
		{"", "switches", "N[@TIME]", "maximum number of switches between the nodes"},
		{"", "contiguous", "", "nodes beside each other"},
		{"", "spread-job", "", "as many nodes as possible"},
		{"", "use-min-nodes", "", "as few as possible"},
		{"", "exclusive", optional, "whole nodes; =user shares them with your own jobs"},
		{"s", "oversubscribe", "", "share nodes with other jobs (gorun's own: GORUN_OVERSUBSCRIBE=1)"},
	}
	slurmResources = []slurmRow{
		{"c", "cpus-per-task", "N", "CPUs of each task"},
		{"", "mincpus", "N", "CPUs that a node must have at least"},
		{"", "cpus-per-gpu", "N", "CPUs for each GPU"},
		{"G", "gpus", "[TYPE:]N", "GPUs of the whole job (gorun's own: GORUN_GPUS=LIST)"},
		{"", "gpus-per-node", "[TYPE:]N", "GPUs of each node"},
		{"", "gpus-per-task", "[TYPE:]N", "GPUs of each task"},
		{"", "gpus-per-socket", "[TYPE:]N", "GPUs of each socket"},
		{"", "gpu-bind", "HOW", "which GPUs tasks see"},
		{"", "gpu-freq", "FREQ", "clocks of the GPUs"},
		{"", "gres", "LIST", "generic resources of each node"},
		{"", "mem", "SIZE", "memory of each node"},
		{"", "mem-per-cpu", "SIZE", "memory for each CPU"},
		{"", "mem-per-gpu", "SIZE", "memory for each GPU"},
		{"", "tmp", "SIZE", "temporary disk space of each node"},
		{"", "ntasks-per-core", "N", "maximum number of tasks on a core"},
		{"", "ntasks-per-gpu", "N", "tasks for each GPU"},
		{"", "ntasks-per-socket", "N", "maximum number of tasks on a socket"},
		{"", "sockets-per-node", "N", "sockets that a node must have"},
		{"", "cores-per-socket", "N", "cores that a socket must have"},
		{"", "threads-per-core", "N", "hardware threads of a core to use"},
		{"B", "extra-node-info", "S[:C[:T]]", "sockets, cores and threads that a node must have"},
		{"S", "core-spec", "N", "cores left to the system"},
		{"", "distribution", "HOW", "how tasks are dealt to nodes (Slurm's -m; gorun's is --module)"},
		{"", "hint", "TYPE", "compute_bound, memory_bound, multithread, nomultithread"},
		{"L", "licenses", "LIST", "licences"},
		{"", "network", "TYPE", "what the interconnect is to give"},
		{"t", "time", "TIME", "limit of time: 30 (minutes), 1:30:00, 2-12"},
		{"", "time-min", "TIME", "a shorter limit that would do"},
	}
	slurmHandling = []slurmRow{
		{"J", "job-name", "NAME", "the job's name (default: the program's)"},
		{"A", "account", "NAME", "account that pays"},
		{"q", "qos", "NAME", "quality of service"},
		{"", "wckey", "KEY", "key of the accounting"},
		{"", "comment", "TEXT", "a comment"},
		{"a", "array", "LIST", "a job array: 0-15%4"},
		{"d", "dependency", "LIST", "when to begin: afterok:JOB"},
		{"b", "begin", "TIME", "not before"},
		{"", "deadline", "TIME", "not if it could not end before"},
		{"", "hold", "", "keep it until it is released"},
		{"", "nice", optional, "less priority; =N by that much"},
		{"", "priority", "N", "priority"},
		{"", "signal", "[B:]SIG[@S]", "signal before the end; B: for gorun, which passes it to every rank"},
		{"", "requeue", "", "put it back after a preemption or a node's failure"},
		{"", "no-requeue", "", "never"},
		{"k", "no-kill", optional, "go on when a node fails; =off: end"},
		{"", "kill-on-invalid-dep", "yes|no", "end a job whose dependency cannot come true"},
		{"o", "output", "FILE", "file for the output, such as %x-%j.out (default: slurm-%j.out)"},
		{"e", "error", "FILE", "file for standard error, where it should be another one"},
		{"i", "input", "FILE", "file for standard input"},
		{"", "open-mode", "append|truncate", "what becomes of such files that exist"},
		{"", "mail-type", "LIST", "when to send mail"},
		{"", "mail-user", "USER", "to whom"},
		{"D", "chdir", "DIR", "working directory, where --output's files are, too (gorun's own: --wdir)"},
		{"", "export", "LIST", "variables for the job (default: ALL)"},
		{"", "get-user-env", optional, "those of a login"},
		{"", "propagate", optional, "limits to take along"},
		{"", "profile", "LIST", "what to record"},
		{"", "acctg-freq", "LIST", "how often to sample"},
		{"", "bb", "SPEC", "burst buffer"},
		{"", "container", "PATH", "an OCI container"},
	}
	slurmSubmission = []slurmRow{
		{"", "parsable", "", "print the job's number alone"},
		{"W", "wait", "", "wait for its end, and exit with its code"},
		{"", "test-only", "", "say when it would begin, and submit nothing"},
	}
)

// slurmOptions makes Slurm options, which go into the script or, as those of the submission, to sbatch itself.
func (o *sbatchOptions) slurmOptions(g dialect.Group, rows ...slurmRow) []*option {
	options := make([]option, len(rows))
	for i, r := range rows {
		own := option{Names: []string{r.name}, Help: r.help, Optional: r.value == optional, Dirs: r.name == "chdir"}
		if r.letter != "" {
			own.Names = append(own.Names, r.letter)
		}
		if !own.Optional {
			own.Value, own.Attached = r.value, r.value != "" && r.letter != ""
		}
		takesValue := own.TakesValue()
		own.Set = func(a dialect.Arg) error {
			switch {
			case takesValue && a.Value == "":
				return errors.New("the value is empty")
			case takesValue, own.Optional && a.Value != "true":
				return o.request("--"+r.name, "="+a.Value)
			case g != dialect.GroupSubmitted && (own.Optional || a.On):
				return o.request("--"+r.name, "")
			case a.On:
				o.submission = append(o.submission, "--"+r.name)
			}
			return nil
		}
		options[i] = own
	}
	return o.group(g, options...)
}
