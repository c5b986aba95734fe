package dialect

// foreignTable holds options of mpirun, mpiexec, srun, accelerate and deepspeed
// that users type by habit: each is refused with the way to get the same here.
var foreignTable = []Option{
	{
		Names: []string{"export"}, Value: "LIST", Group: GroupRefused,
		Help: "use --export-all for ALL, -x NAME=VALUE for each one to add",
	},
	{Names: []string{"ntasks", "num-processes", "nproc"}, Value: "N", Group: GroupRefused, Help: "use -n N"},
	{
		Names: []string{"ntasks-per-node", "num-gpus"}, Value: "N", Attached: true, Group: GroupRefused,
		Help: "use --nproc-per-node N",
	},
	{
		Names: []string{"gpus-per-node"}, Value: "N", Group: GroupRefused,
		Help: "use --nproc-per-node N for ranks; it is salloc, sbatch or gorun sbatch that asks Slurm for GPUs",
	},
	{Names: []string{"nodes", "num-nodes", "num-machines"}, Value: "N", Group: GroupRefused, Help: "use --nnodes N"},
	{Names: []string{"machine-rank"}, Value: "N", Group: GroupRefused, Help: "use --node-rank N"},
	{Names: []string{"main-process-port"}, Value: "PORT", Group: GroupRefused, Help: "use --master-port PORT"},
	{Names: []string{"main-process-ip"}, Value: "ADDR", Group: GroupRefused, Help: "use --master-addr ADDR"},
	{Names: []string{"cpus-per-task"}, Value: "N", Group: GroupRefused, Help: "use --cpus-per-rank N"},
	{Names: []string{"gpus-per-task"}, Value: "N", Group: GroupRefused, Help: "use --gpus-per-rank N"},
	{
		Names: []string{"cpu-bind"}, Value: "HOW", Group: GroupRefused,
		Help: "use --bind-to core, --bind-to numa, --bind-to none or --report-bindings",
	},
	{Names: []string{"bcast"}, Value: "PATH", Group: GroupRefused, Help: "use --copy PATH"},
	{
		Names: []string{"nodelist"}, Value: "LIST", Group: GroupRefused,
		Help: "use -H LIST for hosts of the allocation; for the allocation itself give it to salloc, sbatch or gorun sbatch",
	},
	{
		Names: []string{"w"}, Value: "LIST", Attached: true, Group: GroupRefused,
		Help: "use -H LIST for hosts of the allocation; for the allocation itself give it to salloc, sbatch or gorun sbatch",
	},
	{
		Names: []string{"partition", "p"}, Value: "NAME", Attached: true, Group: GroupRefused,
		Help: "that is Slurm's: give it to salloc, sbatch or gorun sbatch",
	},
	{
		Names: []string{"account", "qos", "gres", "mem", "constraint", "reservation", "job-name"}, Value: "VALUE",
		Group: GroupRefused, Help: "that is Slurm's: give it to salloc, sbatch or gorun sbatch",
	},
	{
		Names: []string{"exclusive"}, Group: GroupRefused,
		Help: "that is Slurm's: give it to salloc, sbatch or gorun sbatch",
	},
	{
		Names: []string{"time"}, Value: "LIMIT", Group: GroupRefused,
		Help: "that is Slurm's: give it to salloc, sbatch or gorun sbatch; gorun's own limit is --timeout",
	},
	{
		Names: []string{"overlap"}, Group: GroupRefused,
		Help: "that is srun's: leave it out, the srun by which gorun starts its agents has it",
	},
	{
		Names: []string{"kill-on-bad-exit"}, Group: GroupRefused,
		Help: "that is srun's: leave it out, gorun ends a job when a rank fails",
	},
	{
		Names: []string{"include"}, Value: "LIST", Group: GroupRefused,
		Help: "use -H for the hosts, and --gpus for the GPUs of each",
	},
	{
		Names: []string{"ssh-port"}, Value: "PORT", Group: GroupRefused,
		Help: "write it behind the host, -H HOST:PORT:SLOTS, or as port=PORT into the host file",
	},
	{
		Names: []string{"forward-signals"}, Value: "LIST", Group: GroupRefused,
		Help: "gorun forwards every signal that can be; use --signals-to-handle for those that end the job",
	},
}
