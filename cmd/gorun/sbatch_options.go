package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
)

// sbatchOptions are those of gorun sbatch: Slurm's for the job, gorun's for its ranks.
type sbatchOptions struct {
	*call
	asked      []string // options of the script, --NAME=VALUE or --NAME each, without newlines
	defaults   []string // more of them that nobody typed: Slurm's SBATCH_* variables are stronger
	submission []string // options of sbatch itself
	line       []string // what follows gorun in the script: its options, the program and its arguments
	program    string   // the first one, as it was typed
	dir        string   // where Slurm starts it, "" is here
	nodesFrom  string
	own        []*option // Slurm's options, and those that gorun sbatch itself obeys
}

func sbatchCommand(c *call) *command {
	o := &sbatchOptions{call: c}
	o.own = slices.Concat(own(o.counts()...), own(o.slurmResources()...), own(o.slurmHandling()...),
		own(o.slurmSubmission()...), own(o.others()...))
	taken := c.OtherJobOptions(false, "chdir", "dry-run", "json", "version", "help", "gpus", "oversubscribe",
		"exclude", "np", "host", "hostfile", "nnodes", "nproc-per-node", "print-completion", "output")
	chdir := *c.JobOptions("chdir")[0] // by the names that are not Slurm's
	chdir.Names = chdir.Names[1:]
	c.Programs(o.addProgram)
	c.Exports(o.checkExport)
	return &command{
		request:  o,
		programs: true,
		Command: cli.Command{
			Usage: "write a batch script for Slurm and submit it",
			Description: "gorun sbatch writes a batch script that starts PROGRAM by gorun in an allocation of Slurm's, and " +
				"submits it by sbatch. The script goes to sbatch's standard input: no file is left.",
			UsageText: "gorun sbatch [options] PROGRAM [ARGS...]",
			Flags: append(c.Flags(append(o.own, c.JobOptions(perNode)...)...),
				dialect.Taken(c.Flags(append(taken, &chdir)...))...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun sbatch -N 2 --nproc-per-node 4 -t 1:00:00 ./trainer", "four ranks on each of two nodes, for an hour"},
				{
					"gorun sbatch -N 2 --gpus-per-node 4 --nproc-per-node 4 -c 8 train.py",
					"a rank of a PyTorch script for each of four GPUs a node, with 8 CPUs each",
				},
				{
					"gorun sbatch --dry-run -n 64 ./simulate >job.sh",
					"64 ranks on as many nodes as it takes; the script, to change and submit",
				},
			},
			Often: []string{
				"nodes", "ntasks", "nproc-per-node", "gpus-per-node", "cpus-per-task", "time", "partition",
				"account", "output", "dry-run",
			},
			Ranks: "Without -n and --nproc-per-node: on each node one rank per GPU, else one.",
			Codes: []dialect.Example{
				{"0", "the job was submitted; with --wait: it ended with 0"},
				{"2", "a mistake on the command line"},
				{"125", "sbatch was not found, or could not be started"},
				{"others", "sbatch's own; with --wait those of the job"},
			},
			Last: "Where Slurm and gorun share a name it means Slurm's (-c, -q, -t, --gpus, --exclude), but for -m, -x, " +
				"-v and " +
				"-H: Slurm's are --distribution, --exclude and --hold. " +
				"gorun's other options (gorun --help) go onto its line in the script: --timeout, --map-by, --max-restarts. More: " +
				"docs/slurm.md.",
		},
	}
}

// counts is how many ranks there are, in Slurm's words.
func (o *sbatchOptions) counts() []option {
	ranks := *o.JobOptions("np")[0] // of each program
	ranks.Names, ranks.Help = []string{"ntasks", "n", "np"}, "number of ranks: Slurm's tasks"
	return []option{
		ranks,
		o.askedFor(dialect.GroupRanks, "", "ntasks-per-node", "N",
			"ranks on each node, as --nproc-per-node N; beside that it is Slurm's count of tasks alone"),
		{
			Names: []string{"nodes", "N", "nnodes"}, Group: dialect.GroupHosts, Value: "N", Attached: true, Set: o.setNodes,
			Help: "number of nodes, or Slurm's MIN-MAX",
		},
	}
}

// others is what is neither Slurm's nor the job's.
func (o *sbatchOptions) others() []option {
	return []option{
		{
			Names: []string{"sbatch-option", "O"}, Group: dialect.GroupSubmitted, Value: "--NAME=VALUE",
			Help: "any other option of your sbatch; may be repeated",
			Set:  o.setOption,
		},
		{
			Names: []string{"dry-run"}, Group: dialect.GroupSubmitted,
			Help: "print the script and stop",
			Set:  dialect.Switch(&o.DryRun),
		},
		{
			Names: []string{"H"}, Group: dialect.GroupRefused, Value: "LIST",
			Help: "Slurm chooses the nodes: use --nodelist LIST for some of them; Slurm's own -H is --hold",
		},
		{
			Names: []string{"host", "hosts"}, Group: dialect.GroupRefused, Value: "LIST",
			Help: "Slurm chooses the nodes: use --nodelist LIST for some of them",
		},
		{
			Names: []string{"hostfile", "machinefile"}, Group: dialect.GroupRefused, Value: "FILE",
			Help: "Slurm chooses the hosts, and no file does; --nodelist NAMES wishes for some of them",
		},
		{
			Names: []string{"wrap"}, Group: dialect.GroupRefused, Value: "COMMAND",
			Help: "gorun sbatch writes the script itself: write the program and its arguments behind the options",
		},
	}
}

// slurmResources is what Slurm gives to a job.
func (o *sbatchOptions) slurmResources() []option {
	return []option{
		o.askedFor(dialect.GroupHosts, "w", "nodelist", "LIST", "nodes that must be among them"),
		o.askedFor(dialect.GroupHosts, "", "exclude", "LIST",
			"nodes that must not (Slurm's -x; gorun's -x gives ranks a variable)"),
		o.askedFor(dialect.GroupHosts, "C", "constraint", "LIST", "features that nodes must have"),
		o.askedFor(dialect.GroupHosts, "p", "partition", "LIST", "partition to run in, or several to choose from"),
		o.askedFor(dialect.GroupHosts, "M", "clusters", "LIST", "clusters"),
		o.askedFor(dialect.GroupHosts, "", "reservation", "NAME", "a reservation"),
		o.askedFor(dialect.GroupHosts, "", "switches", "N[@TIME]", "at most so many switches between the nodes"),
		o.askedFlag(dialect.GroupHosts, "", "contiguous", "nodes beside each other"),
		o.askedFlag(dialect.GroupHosts, "", "spread-job", "as many nodes as possible"),
		o.askedFlag(dialect.GroupHosts, "", "use-min-nodes", "as few as possible"),
		o.askedOptional(dialect.GroupHosts, "", "exclusive", "whole nodes; =user shares them with your own jobs"),
		o.askedFlag(dialect.GroupHosts, "s", "oversubscribe",
			"share nodes with other jobs (gorun's own: GORUN_OVERSUBSCRIBE=1)"),
		o.askedFor(dialect.GroupSlurm, "c", "cpus-per-task", "N", "CPUs of each task"),
		o.askedFor(dialect.GroupSlurm, "", "mincpus", "N", "CPUs that a node must have at least"),
		o.askedFor(dialect.GroupSlurm, "", "cpus-per-gpu", "N", "CPUs for each GPU"),
		o.askedFor(dialect.GroupSlurm, "G", "gpus", "[TYPE:]N", "GPUs of the whole job (gorun's own: GORUN_GPUS=LIST)"),
		o.askedFor(dialect.GroupSlurm, "", "gpus-per-node", "[TYPE:]N", "GPUs of each node"),
		o.askedFor(dialect.GroupSlurm, "", "gpus-per-task", "[TYPE:]N", "GPUs of each task"),
		o.askedFor(dialect.GroupSlurm, "", "gpus-per-socket", "[TYPE:]N", "GPUs of each socket"),
		o.askedFor(dialect.GroupSlurm, "", "gpu-bind", "HOW", "which GPUs tasks see"),
		o.askedFor(dialect.GroupSlurm, "", "gpu-freq", "FREQ", "clocks of the GPUs"),
		o.askedFor(dialect.GroupSlurm, "", "gres", "LIST", "generic resources of each node"),
		o.askedFor(dialect.GroupSlurm, "", "mem", "SIZE", "memory of each node"),
		o.askedFor(dialect.GroupSlurm, "", "mem-per-cpu", "SIZE", "memory for each CPU"),
		o.askedFor(dialect.GroupSlurm, "", "mem-per-gpu", "SIZE", "memory for each GPU"),
		o.askedFor(dialect.GroupSlurm, "", "tmp", "SIZE", "temporary disk space of each node"),
		o.askedFor(dialect.GroupSlurm, "", "ntasks-per-core", "N", "at most so many tasks on a core"),
		o.askedFor(dialect.GroupSlurm, "", "ntasks-per-gpu", "N", "tasks for each GPU"),
		o.askedFor(dialect.GroupSlurm, "", "ntasks-per-socket", "N", "at most so many tasks on a socket"),
		o.askedFor(dialect.GroupSlurm, "", "sockets-per-node", "N", "sockets that a node must have"),
		o.askedFor(dialect.GroupSlurm, "", "cores-per-socket", "N", "cores that a socket must have"),
		o.askedFor(dialect.GroupSlurm, "", "threads-per-core", "N", "hardware threads of a core to use"),
		o.askedFor(dialect.GroupSlurm, "B", "extra-node-info", "S[:C[:T]]",
			"sockets, cores and threads that a node must have"),
		o.askedFor(dialect.GroupSlurm, "S", "core-spec", "N", "cores left to the system"),
		o.askedFor(dialect.GroupSlurm, "", "distribution", "HOW",
			"how tasks are dealt to nodes (Slurm's -m; gorun's is --module)"),
		o.askedFor(dialect.GroupSlurm, "", "hint", "TYPE", "compute_bound, memory_bound, multithread, nomultithread"),
		o.askedFor(dialect.GroupSlurm, "L", "licenses", "LIST", "licences"),
		o.askedFor(dialect.GroupSlurm, "", "network", "TYPE", "what the interconnect is to give"),
		o.askedFor(dialect.GroupSlurm, "t", "time", "TIME", "limit of time: 30 (minutes), 1:30:00, 2-12"),
		o.askedFor(dialect.GroupSlurm, "", "time-min", "TIME", "a shorter limit that would do"),
	}
}

// slurmHandling is how Slurm treats a job.
func (o *sbatchOptions) slurmHandling() []option {
	return []option{
		o.askedFor(dialect.GroupHandled, "J", "job-name", "NAME", "the job's name (default: the program's)"),
		o.askedFor(dialect.GroupHandled, "A", "account", "NAME", "account that pays"),
		o.askedFor(dialect.GroupHandled, "q", "qos", "NAME", "quality of service"),
		o.askedFor(dialect.GroupHandled, "", "wckey", "KEY", "key of the accounting"),
		o.askedFor(dialect.GroupHandled, "", "comment", "TEXT", "a comment"),
		o.askedFor(dialect.GroupHandled, "a", "array", "LIST", "a job array: 0-15%4"),
		o.askedFor(dialect.GroupHandled, "d", "dependency", "LIST", "when to begin: afterok:JOB"),
		o.askedFor(dialect.GroupHandled, "b", "begin", "TIME", "not before"),
		o.askedFor(dialect.GroupHandled, "", "deadline", "TIME", "not if it could not end before"),
		o.askedFlag(dialect.GroupHandled, "", "hold", "keep it until it is released"),
		o.askedOptional(dialect.GroupHandled, "", "nice", "less priority; =N by that much"),
		o.askedFor(dialect.GroupHandled, "", "priority", "N", "priority"),
		o.askedFor(dialect.GroupHandled, "", "signal", "[B:]SIG[@S]",
			"signal before the end; B: for gorun, which passes it to every rank"),
		o.askedFlag(dialect.GroupHandled, "", "requeue", "put it back after a preemption or a node's failure"),
		o.askedFlag(dialect.GroupHandled, "", "no-requeue", "never"),
		o.askedOptional(dialect.GroupHandled, "k", "no-kill", "go on when a node fails; =off: end"),
		o.askedFor(dialect.GroupHandled, "", "kill-on-invalid-dep", "yes|no", "end a job whose dependency cannot come true"),
		o.askedFor(dialect.GroupHandled, "o", "output", "FILE",
			"file for the output, such as %x-%j.out (default: slurm-%j.out)"),
		o.askedFor(dialect.GroupHandled, "e", "error", "FILE", "file for standard error, where it should be another one"),
		o.askedFor(dialect.GroupHandled, "i", "input", "FILE", "file for standard input"),
		o.askedFor(dialect.GroupHandled, "", "open-mode", "append|truncate", "what becomes of such files that exist"),
		o.askedFor(dialect.GroupHandled, "", "mail-type", "LIST", "when to send mail"),
		o.askedFor(dialect.GroupHandled, "", "mail-user", "USER", "to whom"),
		o.askedFor(dialect.GroupHandled, "D", "chdir", "DIR",
			"working directory, where --output's files are, too (gorun's own: --wdir)"),
		o.askedFor(dialect.GroupHandled, "", "export", "LIST", "variables for the job (default: ALL)"),
		o.askedOptional(dialect.GroupHandled, "", "get-user-env", "those of a login"),
		o.askedOptional(dialect.GroupHandled, "", "propagate", "limits to take along"),
		o.askedFor(dialect.GroupHandled, "", "profile", "LIST", "what to record"),
		o.askedFor(dialect.GroupHandled, "", "acctg-freq", "LIST", "how often to sample"),
		o.askedFor(dialect.GroupHandled, "", "bb", "SPEC", "burst buffer"),
		o.askedFor(dialect.GroupHandled, "", "container", "PATH", "an OCI container"),
	}
}

// slurmSubmission is what counts while the job is submitted: it stands in no script.
func (o *sbatchOptions) slurmSubmission() []option {
	return []option{
		o.submitted("parsable", "", "print the job's number alone"),
		o.submitted("wait", "W", "wait for its end, and exit with its code"),
		o.submitted("test-only", "", "say when it would begin, and submit nothing"),
	}
}

// askedFor is an option of Slurm's that takes a value.
func (o *sbatchOptions) askedFor(g dialect.Group, letter, name, value, help string) option {
	row := o.askedFlag(g, letter, name, help)
	row.Value, row.Attached, row.Dirs = value, letter != "", name == "chdir"
	row.Set = func(a dialect.Arg) error {
		if a.Value == "" {
			return errors.New("the value is empty")
		}
		return o.ask("--"+name, "="+a.Value)
	}
	return row
}

// askedFlag is one without.
func (o *sbatchOptions) askedFlag(g dialect.Group, letter, name, help string) option {
	return option{
		Names: slices.DeleteFunc([]string{name, letter}, func(n string) bool { return n == "" }), Group: g, Help: help,
		Set: func(a dialect.Arg) error {
			if !a.On {
				return nil
			}
			return o.ask("--"+name, "")
		},
	}
}

// askedOptional is one that may have a value behind "=".
func (o *sbatchOptions) askedOptional(g dialect.Group, letter, name, help string) option {
	row := o.askedFlag(g, letter, name, help)
	row.Optional = true
	row.Set = func(a dialect.Arg) error {
		if a.Value == "true" {
			return o.ask("--"+name, "")
		}
		return o.ask("--"+name, "="+a.Value)
	}
	return row
}

// submitted is a flag for sbatch itself.
func (o *sbatchOptions) submitted(name, letter, help string) option {
	row := o.askedFlag(dialect.GroupSubmitted, letter, name, help)
	row.Set = func(a dialect.Arg) error {
		if a.On {
			o.submission = append(o.submission, "--"+name)
		}
		return nil
	}
	return row
}

// ask adds an option to the script; the last one of a name counts, as for sbatch.
func (o *sbatchOptions) ask(name, value string) error {
	if strings.ContainsAny(value, "\r\n") {
		return errors.New("a line of a batch script ends at a newline: the value cannot hold one")
	}
	o.asked = slices.DeleteFunc(o.asked, func(option string) bool {
		other, _, _ := strings.Cut(option, "=")
		return other == name
	})
	o.asked = append(o.asked, name+value)
	return nil
}

// asksFor reports whether one of Slurm's options was given.
func (o *sbatchOptions) asksFor(names ...string) bool {
	return slices.ContainsFunc(o.asked, func(option string) bool {
		name, _, _ := strings.Cut(option, "=")
		return slices.Contains(names, strings.TrimLeft(name, "-"))
	})
}

// setNodes takes what Slurm takes; torchrun's MIN:MAX would be an elastic job.
func (o *sbatchOptions) setNodes(a dialect.Arg) error {
	if low, high, ranged := strings.Cut(a.Value, ":"); ranged && low != high {
		return errors.New("elastic jobs: not yet; give a fixed number, or Slurm's MIN-MAX, from which Slurm chooses one")
	} else if ranged {
		a.Value = low
	}
	o.Spec.NumNodes = 0
	if n, err := dialect.ParseRanks(a.Value); err == nil {
		o.Spec.NumNodes = n
	} else if low, _, ranged := strings.Cut(a.Value, "-"); !ranged || low == "" {
		return err
	}
	o.nodesFrom = a.From
	return o.ask("--nodes", "="+a.Value)
}

// setOption takes an option that gorun does not know.
func (o *sbatchOptions) setOption(a dialect.Arg) error {
	name, value, given := strings.Cut(a.Value, "=")
	if !strings.HasPrefix(name, "--") || len(name) < 3 || strings.ContainsAny(name, " \t\r\n'\"\\#") {
		return errors.New("not an option in the form --NAME=VALUE or --NAME")
	}
	if given {
		value = "=" + value
	}
	return o.ask(name, value)
}
