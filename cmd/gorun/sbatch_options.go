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
	ranks := *c.JobOptions("np")[0] // of each program
	ranks.Names, ranks.Help = []string{"ntasks", "n", "np"}, "number of ranks: Slurm's tasks"
	o.own = slices.Concat(
		own(dialect.GroupRanks, ranks),
		o.slurms(dialect.GroupRanks, slurmRow{
			"", "ntasks-per-node", "N",
			"ranks on each node, as --nproc-per-node N; beside that it is Slurm's count of tasks alone",
		}),
		own(dialect.GroupHosts, option{
			Names: []string{"nodes", "N", "nnodes"}, Value: "N", Attached: true, Set: o.setNodes,
			Help: "number of nodes, or Slurm's MIN-MAX",
		}),
		o.slurms(dialect.GroupHosts, slurmHosts...), o.slurms(dialect.GroupSlurm, slurmResources...),
		o.slurms(dialect.GroupHandled, slurmHandling...), o.slurms(dialect.GroupSubmitted, slurmSubmission...),
		o.others())
	taken := c.OtherJobOptions(false, "chdir", "dry-run", "json", "version", "help", "gpus", "oversubscribe",
		"exclude", "np", "host", "hostfile", "nnodes", "nproc-per-node", "print-completion", "output")
	chdir := *c.JobOptions("chdir")[0] // by the names that are not Slurm's
	chdir.Names = chdir.Names[1:]
	c.EachProgram = o.addProgram
	c.CheckExport = o.checkExport
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

// others is what is neither Slurm's nor the job's.
func (o *sbatchOptions) others() []*option {
	return append(own(dialect.GroupSubmitted,
		option{
			Names: []string{"sbatch-option", "O"}, Value: "--NAME=VALUE",
			Help: "any other option of your sbatch; may be repeated",
			Set:  o.setOption,
		},
		option{
			Names: []string{"dry-run"},
			Help:  "print the script and stop",
			Set:   dialect.Switch(&o.DryRun),
		},
	), own(dialect.GroupRefused,
		option{
			Names: []string{"H"}, Value: "LIST",
			Help: "Slurm chooses the nodes: use --nodelist LIST for some of them; Slurm's own -H is --hold",
		},
		option{
			Names: []string{"host", "hosts"}, Value: "LIST",
			Help: "Slurm chooses the nodes: use --nodelist LIST for some of them",
		},
		option{
			Names: []string{"hostfile", "machinefile"}, Value: "FILE",
			Help: "Slurm chooses the hosts, and no file does; --nodelist NAMES wishes for some of them",
		},
		option{
			Names: []string{"wrap"}, Value: "COMMAND",
			Help: "gorun sbatch writes the script itself: write the program and its arguments behind the options",
		},
	)...)
}

// slurmRow is an option that is Slurm's: a letter or none, its name, the value that it takes, and what it does.
type slurmRow struct{ letter, name, value, help string }

// orNot is the value of an option that may have one behind "=".
const orNot = "[=]"

// slurmHosts are Slurm's options on nodes, slurmResources on what a job has of them, slurmHandling on how Slurm treats
// a job, and slurmSubmission those that count while it is submitted, and stand in no script.
var (
	slurmHosts = []slurmRow{
		{"w", "nodelist", "LIST", "nodes that must be among them"},
		{"", "exclude", "LIST", "nodes that must not (Slurm's -x; gorun's -x gives ranks a variable)"},
		{"C", "constraint", "LIST", "features that nodes must have"},
		{"p", "partition", "LIST", "partition to run in, or several to choose from"},
		{"M", "clusters", "LIST", "clusters"},
		{"", "reservation", "NAME", "a reservation"},
		{"", "switches", "N[@TIME]", "at most so many switches between the nodes"},
		{"", "contiguous", "", "nodes beside each other"},
		{"", "spread-job", "", "as many nodes as possible"},
		{"", "use-min-nodes", "", "as few as possible"},
		{"", "exclusive", orNot, "whole nodes; =user shares them with your own jobs"},
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
		{"", "ntasks-per-core", "N", "at most so many tasks on a core"},
		{"", "ntasks-per-gpu", "N", "tasks for each GPU"},
		{"", "ntasks-per-socket", "N", "at most so many tasks on a socket"},
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
		{"", "nice", orNot, "less priority; =N by that much"},
		{"", "priority", "N", "priority"},
		{"", "signal", "[B:]SIG[@S]", "signal before the end; B: for gorun, which passes it to every rank"},
		{"", "requeue", "", "put it back after a preemption or a node's failure"},
		{"", "no-requeue", "", "never"},
		{"k", "no-kill", orNot, "go on when a node fails; =off: end"},
		{"", "kill-on-invalid-dep", "yes|no", "end a job whose dependency cannot come true"},
		{"o", "output", "FILE", "file for the output, such as %x-%j.out (default: slurm-%j.out)"},
		{"e", "error", "FILE", "file for standard error, where it should be another one"},
		{"i", "input", "FILE", "file for standard input"},
		{"", "open-mode", "append|truncate", "what becomes of such files that exist"},
		{"", "mail-type", "LIST", "when to send mail"},
		{"", "mail-user", "USER", "to whom"},
		{"D", "chdir", "DIR", "working directory, where --output's files are, too (gorun's own: --wdir)"},
		{"", "export", "LIST", "variables for the job (default: ALL)"},
		{"", "get-user-env", orNot, "those of a login"},
		{"", "propagate", orNot, "limits to take along"},
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

// slurms are options of Slurm's under a heading: they go onto the script, or to sbatch itself.
func (o *sbatchOptions) slurms(g dialect.Group, rows ...slurmRow) []*option {
	options := make([]option, len(rows))
	for i, r := range rows {
		own := option{Names: []string{r.name}, Help: r.help, Optional: r.value == orNot, Dirs: r.name == "chdir"}
		if r.letter != "" {
			own.Names = append(own.Names, r.letter)
		}
		if !own.Optional {
			own.Value, own.Attached = r.value, r.value != "" && r.letter != ""
		}
		takes := own.TakesValue()
		own.Set = func(a dialect.Arg) error {
			switch {
			case takes && a.Value == "":
				return errors.New("the value is empty")
			case takes, own.Optional && a.Value != "true":
				return o.ask("--"+r.name, "="+a.Value)
			case g != dialect.GroupSubmitted && (own.Optional || a.On):
				return o.ask("--"+r.name, "")
			case a.On:
				o.submission = append(o.submission, "--"+r.name)
			}
			return nil
		}
		options[i] = own
	}
	return own(g, options...)
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
