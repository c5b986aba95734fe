package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Sbatch is the command line of gorun sbatch: Slurm's options for the job, gorun's for its ranks. Its many rows are
// made when they are asked for: every start of a job would pay for them otherwise.
func Sbatch() *Dialect {
	sbatchOnce.Do(makeSbatch)
	return sbatch
}

var (
	sbatchOnce  sync.Once
	sbatch      *Dialect
	sbatchTable []Option
)

func makeSbatch() {
	sbatchTable = slices.Concat(sbatchCounts(), slurmResources(), slurmHandling(), slurmSubmission(), sbatchOwn())
	sbatch = sbatchDialect()
}

func sbatchDialect() *Dialect {
	return &Dialect{
		Name: "gorun sbatch",
		About: "gorun sbatch writes a batch script that starts PROGRAM by gorun in an allocation of Slurm's, and submits " +
			"it by sbatch. The script goes to sbatch's standard input: no file is left.",
		examples: []example{
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
		often: []string{
			"nodes", "ntasks", "nproc-per-node", "gpus-per-node", "cpus-per-task", "time", "partition",
			"account", "output", "dry-run",
		},
		tables: append(append([][]Option{sbatchTable}, rows(torchrunTable, "nproc-per-node")...),
			rows(ownTable, "version", "help")...),
		taken: append(without([][]Option{
			ownTable, nodesTable, endTable, placeTable, reachTable, mpiTable, outputTable,
			torchrunTable, foreignTable,
		},
			"chdir", "dry-run", "json", "version", "help", "gpus", "oversubscribe", "exclude", "np", "host", "hostfile",
			"nnodes", "nproc-per-node", "print-completion", "output"),
			gorunsChdir()),
		batches: true, mpmd: true,
		codes: []example{
			{"0", "the job was submitted; with --wait: it ended with 0"},
			{"2", "a mistake on the command line"},
			{"125", "sbatch was not found, or could not be started"},
			{"others", "sbatch's own; with --wait those of the job"},
		},
		last: "Where Slurm and gorun share a name it means Slurm's (-c, -q, -t, --gpus, --exclude), but for -m, -x, -v and " +
			"-H: Slurm's are --distribution, --exclude and --hold. " +
			"gorun's other options (gorun --help) go onto its line in the script: --timeout, --map-by, --max-restarts. More: " +
			"docs/slurm.md.",
	}
}

// gorunsChdir is gorun's own working directory by the names that are not Slurm's.
func gorunsChdir() []Option {
	o := rows(ownTable, "chdir")[0][0]
	o.Names = slices.DeleteFunc(slices.Clone(o.Names), func(n string) bool { return n == "chdir" })
	return []Option{o}
}

// sbatchCounts is how many ranks there are, in Slurm's words.
func sbatchCounts() []Option {
	return []Option{
		{
			Names: []string{"ntasks", "n", "np"}, Group: GroupRanks, Value: "N", attached: true, family: familyCount,
			block: true, from: varNone,
			Help: "number of ranks: Slurm's tasks",
			set:  (*parser).setRanks,
		},
		asked(GroupRanks, "", "ntasks-per-node", "N",
			"ranks on each node, as --nproc-per-node N; beside that it is Slurm's count of tasks alone"),
		{
			Names: []string{"nodes", "N", "nnodes"}, Group: GroupHosts, Value: "N", attached: true, from: varNone,
			Help: "number of nodes, or Slurm's MIN-MAX",
			set:  (*parser).setSlurmNodes,
		},
	}
}

// sbatchOwn is what is neither Slurm's nor the job's.
func sbatchOwn() []Option {
	return []Option{
		{
			Names: []string{"sbatch-option", "O"}, Group: GroupSubmitted, Value: "--NAME=VALUE", from: varNone,
			Help: "any other option of your sbatch; may be repeated",
			set:  (*parser).setSbatchOption,
		},
		{
			Names: []string{"dry-run"}, Group: GroupSubmitted, from: varNone,
			Help: "print the script and stop",
			set:  func(p *parser, a arg) error { p.dryRun = a.on; return nil },
		},
		{
			Names: []string{"H"}, Group: GroupRefused, Value: "LIST", from: varNone,
			Help: "Slurm chooses the nodes: use --nodelist LIST for some of them; Slurm's own -H is --hold",
		},
		{
			Names: []string{"host", "hosts"}, Group: GroupRefused, Value: "LIST", from: varNone,
			Help: "Slurm chooses the nodes: use --nodelist LIST for some of them",
		},
		{
			Names: []string{"hostfile", "machinefile"}, Group: GroupRefused, Value: "FILE", from: varNone,
			Help: "Slurm chooses the hosts, and no file does; --nodelist NAMES wishes for some of them",
		},
		{
			Names: []string{"wrap"}, Group: GroupRefused, Value: "COMMAND", from: varNone,
			Help: "gorun sbatch writes the script itself: write the program and its arguments behind the options",
		},
	}
}

// slurmResources is what Slurm gives to a job.
func slurmResources() []Option {
	return []Option{
		asked(GroupHosts, "w", "nodelist", "LIST", "nodes that must be among them"),
		asked(GroupHosts, "", "exclude", "LIST", "nodes that must not (Slurm's -x; gorun's -x gives ranks a variable)"),
		asked(GroupHosts, "C", "constraint", "LIST", "features that nodes must have"),
		asked(GroupHosts, "p", "partition", "LIST", "partition to run in, or several to choose from"),
		asked(GroupHosts, "M", "clusters", "LIST", "clusters"),
		asked(GroupHosts, "", "reservation", "NAME", "a reservation"),
		asked(GroupHosts, "", "switches", "N[@TIME]", "at most so many switches between the nodes"),
		askedFlag(GroupHosts, "", "contiguous", "nodes beside each other"),
		askedFlag(GroupHosts, "", "spread-job", "as many nodes as possible"),
		askedFlag(GroupHosts, "", "use-min-nodes", "as few as possible"),
		askedOptional(GroupHosts, "", "exclusive", "whole nodes; =user shares them with your own jobs"),
		askedFlag(GroupHosts, "s", "oversubscribe", "share nodes with other jobs (gorun's own: GORUN_OVERSUBSCRIBE=1)"),
		asked(GroupSlurm, "c", "cpus-per-task", "N", "CPUs of each task"),
		asked(GroupSlurm, "", "mincpus", "N", "CPUs that a node must have at least"),
		asked(GroupSlurm, "", "cpus-per-gpu", "N", "CPUs for each GPU"),
		asked(GroupSlurm, "G", "gpus", "[TYPE:]N", "GPUs of the whole job (gorun's own: GORUN_GPUS=LIST)"),
		asked(GroupSlurm, "", "gpus-per-node", "[TYPE:]N", "GPUs of each node"),
		asked(GroupSlurm, "", "gpus-per-task", "[TYPE:]N", "GPUs of each task"),
		asked(GroupSlurm, "", "gpus-per-socket", "[TYPE:]N", "GPUs of each socket"),
		asked(GroupSlurm, "", "gpu-bind", "HOW", "which GPUs tasks see"),
		asked(GroupSlurm, "", "gpu-freq", "FREQ", "clocks of the GPUs"),
		asked(GroupSlurm, "", "gres", "LIST", "generic resources of each node"),
		asked(GroupSlurm, "", "mem", "SIZE", "memory of each node"),
		asked(GroupSlurm, "", "mem-per-cpu", "SIZE", "memory for each CPU"),
		asked(GroupSlurm, "", "mem-per-gpu", "SIZE", "memory for each GPU"),
		asked(GroupSlurm, "", "tmp", "SIZE", "temporary disk space of each node"),
		asked(GroupSlurm, "", "ntasks-per-core", "N", "at most so many tasks on a core"),
		asked(GroupSlurm, "", "ntasks-per-gpu", "N", "tasks for each GPU"),
		asked(GroupSlurm, "", "ntasks-per-socket", "N", "at most so many tasks on a socket"),
		asked(GroupSlurm, "", "sockets-per-node", "N", "sockets that a node must have"),
		asked(GroupSlurm, "", "cores-per-socket", "N", "cores that a socket must have"),
		asked(GroupSlurm, "", "threads-per-core", "N", "hardware threads of a core to use"),
		asked(GroupSlurm, "B", "extra-node-info", "S[:C[:T]]", "sockets, cores and threads that a node must have"),
		asked(GroupSlurm, "S", "core-spec", "N", "cores left to the system"),
		asked(GroupSlurm, "", "distribution", "HOW", "how tasks are dealt to nodes (Slurm's -m; gorun's is --module)"),
		asked(GroupSlurm, "", "hint", "TYPE", "compute_bound, memory_bound, multithread, nomultithread"),
		asked(GroupSlurm, "L", "licenses", "LIST", "licences"),
		asked(GroupSlurm, "", "network", "TYPE", "what the interconnect is to give"),
		asked(GroupSlurm, "t", "time", "TIME", "limit of time: 30 (minutes), 1:30:00, 2-12"),
		asked(GroupSlurm, "", "time-min", "TIME", "a shorter limit that would do"),
	}
}

// slurmHandling is how Slurm treats a job.
func slurmHandling() []Option {
	return []Option{
		asked(GroupHandled, "J", "job-name", "NAME", "the job's name (default: the program's)"),
		asked(GroupHandled, "A", "account", "NAME", "account that pays"),
		asked(GroupHandled, "q", "qos", "NAME", "quality of service"),
		asked(GroupHandled, "", "wckey", "KEY", "key of the accounting"),
		asked(GroupHandled, "", "comment", "TEXT", "a comment"),
		asked(GroupHandled, "a", "array", "LIST", "a job array: 0-15%4"),
		asked(GroupHandled, "d", "dependency", "LIST", "when to begin: afterok:JOB"),
		asked(GroupHandled, "b", "begin", "TIME", "not before"),
		asked(GroupHandled, "", "deadline", "TIME", "not if it could not end before"),
		askedFlag(GroupHandled, "", "hold", "keep it until it is released"),
		askedOptional(GroupHandled, "", "nice", "less priority; =N by that much"),
		asked(GroupHandled, "", "priority", "N", "priority"),
		asked(GroupHandled, "", "signal", "[B:]SIG[@S]",
			"signal before the end; B: for gorun, which passes it to every rank"),
		askedFlag(GroupHandled, "", "requeue", "put it back after a preemption or a node's failure"),
		askedFlag(GroupHandled, "", "no-requeue", "never"),
		askedOptional(GroupHandled, "k", "no-kill", "go on when a node fails; =off: end"),
		asked(GroupHandled, "", "kill-on-invalid-dep", "yes|no", "end a job whose dependency cannot come true"),
		asked(GroupHandled, "o", "output", "FILE", "file for the output, such as %x-%j.out (default: slurm-%j.out)"),
		asked(GroupHandled, "e", "error", "FILE", "file for standard error, where it should be another one"),
		asked(GroupHandled, "i", "input", "FILE", "file for standard input"),
		asked(GroupHandled, "", "open-mode", "append|truncate", "what becomes of such files that exist"),
		asked(GroupHandled, "", "mail-type", "LIST", "when to send mail"),
		asked(GroupHandled, "", "mail-user", "USER", "to whom"),
		asked(GroupHandled, "D", "chdir", "DIR", "working directory, where --output's files are, too (gorun's own: --wdir)"),
		asked(GroupHandled, "", "export", "LIST", "variables for the job (default: ALL)"),
		askedOptional(GroupHandled, "", "get-user-env", "those of a login"),
		askedOptional(GroupHandled, "", "propagate", "limits to take along"),
		asked(GroupHandled, "", "profile", "LIST", "what to record"),
		asked(GroupHandled, "", "acctg-freq", "LIST", "how often to sample"),
		asked(GroupHandled, "", "bb", "SPEC", "burst buffer"),
		asked(GroupHandled, "", "container", "PATH", "an OCI container"),
	}
}

// slurmSubmission is what counts while the job is submitted: it stands in no script.
func slurmSubmission() []Option {
	return []Option{
		submitted("parsable", "", "print the job's number alone"),
		submitted("wait", "W", "wait for its end, and exit with its code"),
		submitted("test-only", "", "say when it would begin, and submit nothing"),
	}
}

// asked is an option of Slurm's that takes a value.
func asked(g Group, letter, name, value, help string) Option {
	return Option{
		Names: named(name, letter), Group: g, Value: value, Help: help, attached: letter != "", from: varNone,
		dirs: name == "chdir",
		set: func(p *parser, a arg) error {
			if a.value == "" {
				return errors.New("the value is empty")
			}
			return p.askSlurm("--"+name, "="+a.value)
		},
	}
}

// askedFlag is one without.
func askedFlag(g Group, letter, name, help string) Option {
	return Option{Names: named(name, letter), Group: g, Help: help, from: varNone, set: func(p *parser, a arg) error {
		if !a.on {
			return nil
		}
		return p.askSlurm("--"+name, "")
	}}
}

// askedOptional is one that may have a value behind "=".
func askedOptional(g Group, letter, name, help string) Option {
	return Option{
		Names: named(name, letter), Group: g, Help: help, optional: true, from: varNone,
		set: func(p *parser, a arg) error {
			if a.value == "true" {
				return p.askSlurm("--"+name, "")
			}
			return p.askSlurm("--"+name, "="+a.value)
		},
	}
}

// submitted is a flag for sbatch itself.
func submitted(name, letter, help string) Option {
	return Option{
		Names: named(name, letter), Group: GroupSubmitted, Help: help, from: varNone,
		set: func(p *parser, a arg) error {
			if a.on {
				p.batch.Submission = append(p.batch.Submission, "--"+name)
			}
			return nil
		},
	}
}

func named(name, letter string) []string {
	if letter == "" {
		return []string{name}
	}
	return []string{name, letter}
}

// askSlurm adds an option to the script; the last one of a name counts, as for sbatch.
func (p *parser) askSlurm(name, value string) error {
	if strings.ContainsAny(value, "\r\n") {
		return errors.New("a line of a batch script ends at a newline: the value cannot hold one")
	}
	p.batch.Asked = slices.DeleteFunc(p.batch.Asked, func(option string) bool {
		other, _, _ := strings.Cut(option, "=")
		return other == name
	})
	p.batch.Asked = append(p.batch.Asked, name+value)
	return nil
}

// asksFor reports whether one of Slurm's options was given.
func (p *parser) asksFor(names ...string) bool {
	return slices.ContainsFunc(p.batch.Asked, func(option string) bool {
		name, _, _ := strings.Cut(option, "=")
		return slices.Contains(names, strings.TrimLeft(name, "-"))
	})
}

// setSlurmNodes takes what Slurm takes; torchrun's MIN:MAX would be an elastic job.
func (p *parser) setSlurmNodes(a arg) error {
	if low, high, ranged := strings.Cut(a.value, ":"); ranged && low != high {
		return errors.New("elastic jobs: not yet; give a fixed number, or Slurm's MIN-MAX, from which Slurm chooses one")
	} else if ranged {
		a.value = low
	}
	p.inv.Spec.NumNodes = 0
	if n, err := parseRanks(a.value); err == nil {
		p.inv.Spec.NumNodes = n
	} else if low, _, ranged := strings.Cut(a.value, "-"); !ranged || low == "" {
		return err
	}
	p.nodesFrom = a.from
	return p.askSlurm("--nodes", "="+a.value)
}

// setSbatchOption takes an option that gorun does not know.
func (p *parser) setSbatchOption(a arg) error {
	name, value, given := strings.Cut(a.value, "=")
	if !strings.HasPrefix(name, "--") || len(name) < 3 || strings.ContainsAny(name, " \t\r\n'\"\\#") {
		return fmt.Errorf("not an option in the form --NAME=VALUE or --NAME")
	}
	if given {
		value = "=" + value
	}
	return p.askSlurm(name, value)
}
