package dialect

// ignored makes a row of options that ask for what happens anyway, with the reason; value is "" for flags.
func ignored(value, why, names string) Option {
	return Option{Names: names, Group: GroupAccepted, Value: value, Help: why, Set: nothing}
}

// refused makes a row of options that are only known to be refused, with what to use instead.
func refused(value, instead, names string) Option {
	return Option{Names: names, Group: GroupRefused, Value: value, Help: instead}
}

// alias makes a row of options that stand for another one.
func (p *Line) alias(f family, written, value, names string) Option {
	return Option{
		Names: names, Group: GroupMPI, Value: value, Family: f, block: true, Help: "act as " + written,
		Set: p.as(written, value),
	}
}

// inGroup sets the group of rows.
func inGroup(g Group, rows []Option) []Option {
	for i := range rows {
		rows[i].Group = g
	}
	return rows
}

// beforeEach allows a row before later programs, too.
func beforeEach(o Option) Option {
	o.block = true
	return o
}

// attached allows a digit right after a row's name.
func attached(o Option) Option {
	o.Attached = true
	return o
}

const slurms = "this is an option of Slurm: pass it to salloc, sbatch or gorun sbatch"

// foreignTable refuses options of srun, accelerate and deepspeed that users type by habit.
func foreignTable(*Line) []Option {
	const nodeList = "use -H LIST to select hosts of the allocation; to choose the allocation, pass it to salloc, " +
		"sbatch or gorun sbatch"
	return []Option{
		refused("LIST", "use --export-all for ALL, or -x NAME=VALUE for each variable", "export"),
		refused("N", "use -n N", "ntasks num-processes nproc ranks nranks num-ranks processes procs nprocs num-procs tasks "+
			"workers num-workers"),
		refused("N", "use -n N", "world-size"),
		attached(refused("N", "use --nproc-per-node N", "ntasks-per-node num-gpus ranks-per-node procs-per-node")),
		refused("N", "use --max-restarts N", "restarts retries"),
		refused("DIR", "use --chdir DIR", "cwd workdir"),
		refused("N", "use --nproc-per-node N for ranks; request GPUs with salloc, sbatch or gorun sbatch",
			"gpus-per-node"),
		refused("N", "use --nnodes N", "nodes num-nodes num-machines"),
		refused("N", "use --node-rank N", "machine-rank"),
		refused("PORT", "use --master-port PORT", "main-process-port port"),
		refused("ADDR", "use --master-addr ADDR", "main-process-ip"),
		refused("N", "use --cpus-per-rank N", "cpus-per-task"),
		refused("N", "use --gpus-per-rank N", "gpus-per-task"),
		refused("HOW", "use --bind-to core, --bind-to numa, --bind-to none or --report-bindings", "cpu-bind"),
		refused("PATH", "use --copy PATH", "bcast"),
		refused("LIST", nodeList, "nodelist"),
		attached(refused("LIST", nodeList, "w")),
		attached(refused("NAME", slurms, "partition p")),
		refused("VALUE", slurms, "account qos gres mem constraint reservation job-name"),
		refused("", slurms, "exclusive"),
		refused("LIMIT", slurms+"; gorun's own limit is --timeout", "time"),
		refused("", "srun's own option: leave it out; gorun adds it to the srun of its agents", "overlap"),
		refused("", "srun's own option: leave it out; gorun ends a job when a rank fails", "kill-on-bad-exit"),
		refused("LIST", "use -H for the hosts, and --gpus for the GPUs of each", "include"),
		refused("PORT", "write it after the host, -H HOST:PORT:SLOTS, or port=PORT in the host file", "ssh-port"),
		refused("LIST", "gorun forwards every signal that it can; use --signals-to-handle for signals that end the job",
			"forward-signals"),
	}
}

// unclearTable refuses options that mean different things in different launchers.
func unclearTable(*Line) []Option {
	return []Option{
		attached(refused("N", "use --nproc-per-node N for ranks per node, as with mpirun; for nodes, as with Slurm, "+
			"--nnodes N", "N")),
		refused("", "use --copy with the program's path, as mpirun does, or --stdin RANK, as Intel's mpiexec does",
			"s"),
		refused("", "use -v to see gorun's decisions; put a debugger before the program, as in gorun -n 2 xterm -e "+
			"gdb ./prog", "debug"),
	}
}
