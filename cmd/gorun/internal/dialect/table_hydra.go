package dialect

// hydraTable holds what mpiexec of MPICH's and Intel's Hydra has beside mpiTable.
var hydraTable = []Option{
	{
		Names: []string{"genv"}, Group: GroupMPI, Value: "NAME VALUE", words: 2, from: varNone,
		Help: "give ranks of all programs a variable; NAME=VALUE may stand in one word",
		set:  func(p *parser, a arg) error { return p.setEnv(a, true) },
	},
	{
		Names: []string{"env"}, Group: GroupMPI, Value: "NAME VALUE", words: 2, from: varNone, block: true,
		Help: "give ranks of this program a variable",
		set:  func(p *parser, a arg) error { return p.setEnv(a, false) },
	},
	{
		Names: []string{"genvlist"}, Group: GroupMPI, Value: "NAME,...", from: varNone, family: familyExport,
		Help: "of this environment ranks get these variables alone",
		set:  (*parser).setEnvList,
	},
	{
		Names: []string{"envlist"}, Group: GroupMPI, Value: "NAME,...", from: varNone, block: true, family: familyExport,
		Help: "the same, for the job of one program",
		set:  (*parser).setEnvList,
	},
	{
		Names: []string{"genvnone"}, Group: GroupMPI, from: varNone, family: familyExport,
		Help: "ranks get nothing of this environment, but what other options give them",
		set:  (*parser).setEnvNone,
	},
	{
		Names: []string{"envnone"}, Group: GroupMPI, from: varNone, block: true, family: familyExport,
		Help: "the same, for the job of one program",
		set:  (*parser).setEnvNone,
	},
	{
		Names: []string{"envall"}, Group: GroupMPI, from: varNone, block: true, family: familyExport,
		Help: "the same as --export-all, of all programs",
		set:  (*parser).setEnvAll,
	},
	{
		Names: []string{"genvexcl"}, Group: GroupMPI, Value: "NAME,...", from: varNone,
		Help: "take variables away from ranks",
		set:  (*parser).setEnvExcl,
	},
	{
		Names: []string{"envexcl"}, Group: GroupMPI, Value: "NAME,...", from: varNone, block: true,
		Help: "the same, of this program",
		set:  (*parser).setEnvExcl,
	},
	{
		Names: []string{"configfile"}, Group: GroupMPI, Value: "FILE", from: varNone, block: true,
		Help: "the rest of the command line from a file, a program with its options on each line",
		set:  (*parser).setProgramFile,
	},
	{
		Names: []string{"ppn", "perhost", "npernode", "grr"}, Group: GroupMPI, Value: "N", attached: true, from: varNone,
		family: familyCount, block: true,
		Help: "the same as --nproc-per-node, and a limit beside -n",
		set:  (*parser).setPPN,
	},
	{
		Names: []string{"pernode"}, Group: GroupMPI, from: varNone, family: familyCount, block: true,
		Help: "one rank per node",
		set:  (*parser).setPerNodeOne,
	},
	{
		Names: []string{"rr"}, Group: GroupMPI, from: varNone, family: familyMap,
		Help: "ranks go round the nodes, as with --map-by node",
		set:  func(p *parser, a arg) error { return p.setMapWord(a, "node") },
	},
	{
		Names: []string{"machine", "machines", "machinelist"}, Group: GroupMPI, Value: "HOST,...", from: varNone,
		family: familyHosts, block: true,
		Help: "hosts, as behind -H; what has a slash is a host file",
		set:  (*parser).setMachines,
	},
	{
		Names: []string{"f"}, Group: GroupMPI, Value: "FILE", from: varNone, family: familyHosts, block: true,
		Help: "the same as --hostfile",
		set:  (*parser).setHostFile,
	},
	{
		Names: []string{"gwdir"}, Group: GroupMPI, Value: "DIR", dirs: true, from: varNone, family: familyDir,
		Help: "the same as --chdir, for all programs",
		set:  func(p *parser, a arg) error { return text(&p.inv.Spec.Dir, a) },
	},
	{
		Names: []string{"binding"}, Group: GroupMPI, Value: "OBJECT", from: varNone, block: true, family: familyBind,
		Help: "the same as --bind-to",
		set:  (*parser).setBindTo,
	},
	{
		Names: []string{"membind"}, Group: GroupMPI, Value: "POLICY", from: varNone, family: familyMemory,
		Help: "the same as --bind-mem: none, firsttouch, bind, interleave",
		set:  (*parser).setMembind,
	},
	{
		Names: []string{"gpus-per-proc", "g"}, Group: GroupMPI, Value: "N|AUTO", from: varNone, family: familyGPUs,
		Help: "the same as --gpus-per-rank N --isolate-gpus",
		set:  (*parser).setGPUsPerProc,
	},
	{
		Names: []string{"usize"}, Group: GroupMPI, Value: "N|SYSTEM|INFINITE", from: varNone,
		Help: "set MPI_UNIVERSE_SIZE to N or the slots; INFINITE leaves it unset",
		set:  (*parser).setUniverse,
	},
	{
		Names: []string{"iface"}, Group: GroupMPI, Value: "NAME", from: varNone,
		Help: "the network interface by which ranks talk, as variables of MPI libraries, NCCL and Gloo; gorun finds its " +
			"own way",
		set: (*parser).setInterface,
	},
	{
		Names: []string{"launcher", "bootstrap"}, Group: GroupMPI, Value: "NAME", from: varNone,
		Help: "how other hosts are reached: ssh, rsh, fork, or the resource manager in whose job this is",
		set:  (*parser).setLauncher,
	},
	{
		Names: []string{"launcher-exec", "bootstrap-exec", "rsh"}, Group: GroupMPI, Value: "'CMD ...'", from: varNone,
		family: familySSH,
		Help:   "the same as --ssh",
		set:    (*parser).setSSH,
	},
	{
		Names: []string{"rmk"}, Group: GroupMPI, Value: "NAME", from: varNone, family: familyEngine,
		Help: "the same as --engine; user is none",
		set:  (*parser).setRMK,
	},
	{
		Names: []string{"disable-auto-cleanup", "dac"}, Group: GroupMPI, from: varNone, family: familyFailure,
		Help: "the same as --on-failure continue",
		set:  func(p *parser, a arg) error { p.inv.Spec.Policy.Continue = a.on; return nil },
	},
	{
		Names: []string{"info"}, Group: GroupMPI, from: varNone,
		Help: "print the version",
		set:  func(p *parser, a arg) error { p.version = p.version || a.on; return nil },
	},

	{
		Names: []string{"enable-auto-cleanup", "cleanup"}, Group: GroupAccepted, from: varNone, set: nothing,
		Help: "the failure of a rank ends the job unless --on-failure continue",
	},
	{
		Names: []string{"disable-hostname-propagation", "enable-hostname-propagation", "hybrid-hosts"},
		Group: GroupAccepted, from: varNone, set: nothing, Help: "each host is asked for what it is like",
	},
	{
		Names: []string{"localhost"}, Value: "NAME", Group: GroupAccepted, from: varNone, set: nothing,
		Help: "gorun finds by which address others reach this host",
	},
	{
		Names: []string{"topolib", "demux", "use-app-topology"}, Value: "NAME", Group: GroupAccepted, from: varNone,
		set: nothing, Help: "there is one way to do that here",
	},
	{
		Names: []string{"disable-x", "noconf", "v6", "prefork", "profile"}, Group: GroupAccepted, from: varNone,
		set: nothing, Help: "there is nothing of that kind to be told",
	},
	{
		Names: []string{"pmi-aggregate", "pmi-noaggregate"}, Group: GroupAccepted, from: varNone, set: nothing,
		Help: "ranks are served by the agent of their node, whatever the way",
	},
	{
		Names: []string{"pmi-connect"}, Value: "NAME", Group: GroupAccepted, from: varNone, set: nothing,
		Help: "ranks are served by the agent of their node, whatever the way",
	},
	{
		Names: []string{"branch-count", "tree-width"}, Value: "N", Group: GroupAccepted, from: varNone, set: nothing,
		Help: "all hosts are reached at once, --ssh-at-once of them",
	},
	{
		Names: []string{"silent-abort"}, Group: GroupAccepted, from: varNone, set: nothing,
		Help: "an abort is told in a few lines; --quiet leaves out remarks",
	},
	{
		Names: []string{"ordered-output"}, Group: GroupAccepted, from: varNone, set: nothing,
		Help: "lines of ranks are never mixed",
	},

	{
		Names: []string{"rankmap"}, Value: "LIST", Group: GroupRefused, from: varNone,
		Help: "use a rank file with --rankfile, or programs with hosts of their own: -H a -n 2 prog : -H b -n 2 prog",
	},
	{
		Names: []string{"order-nodes"}, Value: "HOW", Group: GroupRefused, from: varNone,
		Help: "ranks take hosts as you name them; name them in that order",
	},
	{
		Names: []string{"output-from"}, Value: "RANK", Group: GroupRefused, from: varNone,
		Help: "use --local-ranks-filter RANK, which counts on each host",
	},
	{
		Names: []string{"gpu-subdevs-per-proc"}, Value: "N", Group: GroupRefused, from: varNone,
		Help: "gorun gives ranks whole GPUs, or parts that MIG made; use --gpus-per-rank",
	},
	{
		Names: []string{"enable-x"}, Group: GroupRefused, from: varNone,
		Help: "gorun's own SSH forwards no X11; use --ssh 'ssh -X'",
	},
	{
		Names: []string{"bootstrap-exec-args"}, Value: "'ARGS'", Group: GroupRefused, from: varNone,
		Help: "write them into the command: --ssh 'ssh ARGS'",
	},
	{
		Names: []string{"pmi-args"}, Value: "PORT IFACE KEY PID", words: 4, Group: GroupRefused, from: varNone,
		Help: "a program that was started without gorun cannot ask it for more ranks: start it by gorun -n 1",
	},
	{
		Names: []string{
			"aps", "mps", "trace", "trace-imbalance", "trace-pt2pt", "trace-collectives", "check-mpi", "check",
			"ilp64", "prot",
		}, Group: GroupRefused, from: varNone,
		Help: "that is a tool of Intel's, which its own mpiexec loads; put it before the program, as in gorun -n 4 aps ./prog",
	},
	{
		Names: []string{"gtool", "gtoolfile", "gdb-args"}, Value: "WHAT", Group: GroupRefused, from: varNone,
		Help: "put the tool before the program of the ranks it is for, as in gorun -n 1 valgrind ./prog : -n 3 ./prog",
	},
	{
		Names: []string{"tva", "gdba"}, Value: "PID", Group: GroupRefused, from: varNone,
		Help: "attach the debugger to the process of a rank: gdb -p PID",
	},
	{
		Names: []string{"gdb-ia"}, Group: GroupRefused, from: varNone,
		Help: "put the debugger before the program, as in gorun -n 2 xterm -e gdb ./prog",
	},
}

// What the names of one letter mean differs from launcher to launcher; so do --debug and --tune.
var (
	perNodeTable = []Option{
		{
			Names: []string{"N"}, Group: GroupMPI, Value: "N", attached: true, from: varNone, family: familyCount, block: true,
			Help: "the same as --nproc-per-node, and a limit beside -n",
			set:  (*parser).setPPN,
		},
	}
	mpirunTable = []Option{
		{
			Names: []string{"s"}, Group: GroupMPI, from: varNone, block: true,
			Help: "the same as --preload-binary",
			set:  func(p *parser, a arg) error { p.mpi.preload = a.on; return nil },
		},
		{
			Names: []string{"tune"}, Group: GroupMPI, Value: "FILE,...", from: varNone,
			Help: "the same as --am; auto, off and textbook are gorun's: which settings of NCCL's ranks get",
			set:  (*parser).setTune,
		},
		{
			Names: []string{"debug"}, Group: GroupRefused, from: varNone,
			Help: "put the debugger before the program, as in mpirun -n 2 xterm -e gdb ./prog",
		},
	}
	mpiexecTable = []Option{
		{
			Names: []string{"s"}, Group: GroupMPI, Value: "all|RANKS", from: varNone, family: familyStdin,
			Help: "which ranks read standard input",
			set:  func(p *parser, a arg) (err error) { p.inv.Spec.Stdin, err = parseStdin(a.value); return err },
		},
		{
			Names: []string{"tune"}, Group: GroupMPI, Value: "FILE", from: varNone,
			Help: "a file of Intel MPI's tuning data: ranks get I_MPI_TUNING_BIN=FILE; Open MPI's files of parameters are -am " +
				"FILE; auto, off and textbook are gorun's: which settings of NCCL's ranks get",
			set: (*parser).setTuningData,
		},
		{
			Names: []string{"debug"}, Group: GroupMPI, from: varNone, family: familyLoudness,
			Help: "the same as -v",
			set:  (*parser).setVerbose,
		},
	}
	// unclearTable are those in gorun's own dialect, where nobody can know who is meant.
	unclearTable = []Option{
		{
			Names: []string{"N"}, Value: "N", attached: true, Group: GroupRefused,
			Help: "use --nproc-per-node N for ranks per node, as with mpirun; for nodes, as with Slurm, --nnodes N",
		},
		{
			Names: []string{"s"}, Group: GroupRefused, from: varNone,
			Help: "use --copy with the program's path, which mpirun means, or --stdin RANK, which Intel's mpiexec means",
		},
		{
			Names: []string{"debug"}, Group: GroupRefused, from: varNone,
			Help: "use -v to see what gorun decides; a debugger stands before the program, as in gorun -n 2 xterm -e gdb ./prog",
		},
	}
)
