package dialect

// hydraTable holds what mpiexec of MPICH's and Intel's Hydra has beside mpiTable.
var hydraTable = []Option{
	{
		Names: []string{"genv"}, Group: GroupMPI, Value: "NAME VALUE", words: 2, From: NoVar,
		Help: "give ranks of all programs a variable; NAME=VALUE may stand in one word",
		Set:  func(p *Line, a Arg) error { return p.setEnv(a, true) },
	},
	{
		Names: []string{"env"}, Group: GroupMPI, Value: "NAME VALUE", words: 2, From: NoVar, block: true,
		Help: "give ranks of this program a variable",
		Set:  func(p *Line, a Arg) error { return p.setEnv(a, false) },
	},
	{
		Names: []string{"genvlist"}, Group: GroupMPI, Value: "NAME,...", From: NoVar, Family: familyExport,
		Help: "of this environment ranks get these variables alone",
		Set:  (*Line).setEnvList,
	},
	{
		Names: []string{"envlist"}, Group: GroupMPI, Value: "NAME,...", From: NoVar, block: true, Family: familyExport,
		Help: "the same, for the job of one program",
		Set:  (*Line).setEnvList,
	},
	{
		Names: []string{"genvnone"}, Group: GroupMPI, From: NoVar, Family: familyExport,
		Help: "ranks get nothing of this environment, but what other options give them",
		Set:  (*Line).setEnvNone,
	},
	{
		Names: []string{"envnone"}, Group: GroupMPI, From: NoVar, block: true, Family: familyExport,
		Help: "the same, for the job of one program",
		Set:  (*Line).setEnvNone,
	},
	{
		Names: []string{"envall"}, Group: GroupMPI, From: NoVar, block: true, Family: familyExport,
		Help: "the same as --export-all, of all programs",
		Set:  (*Line).setEnvAll,
	},
	{
		Names: []string{"genvexcl"}, Group: GroupMPI, Value: "NAME,...", From: NoVar,
		Help: "take variables away from ranks",
		Set:  (*Line).setEnvExcl,
	},
	{
		Names: []string{"envexcl"}, Group: GroupMPI, Value: "NAME,...", From: NoVar, block: true,
		Help: "the same, of this program",
		Set:  (*Line).setEnvExcl,
	},
	{
		Names: []string{"configfile"}, Group: GroupMPI, Value: "FILE", From: NoVar, block: true,
		Help: "the rest of the command line from a file, a program with its options on each line",
		Set:  (*Line).setProgramFile,
	},
	{
		Names: []string{"ppn", "perhost", "npernode", "grr"}, Group: GroupMPI, Value: "N", Attached: true, From: NoVar,
		Family: FamilyCount, block: true,
		Help: "the same as --nproc-per-node, and a limit beside -n",
		Set:  (*Line).setPPN,
	},
	{
		Names: []string{"pernode"}, Group: GroupMPI, From: NoVar, Family: FamilyCount, block: true,
		Help: "one rank per node",
		Set:  (*Line).setPerNodeOne,
	},
	{
		Names: []string{"rr"}, Group: GroupMPI, From: NoVar, Family: familyMap,
		Help: "ranks go round the nodes, as with --map-by node",
		Set:  func(p *Line, a Arg) error { return p.setMapWord(a, "node") },
	},
	{
		Names: []string{"machine", "machines", "machinelist"}, Group: GroupMPI, Value: "HOST,...", From: NoVar,
		Family: familyHosts, block: true,
		Help: "hosts, as behind -H; what has a slash is a host file",
		Set:  (*Line).setMachines,
	},
	{
		Names: []string{"f"}, Group: GroupMPI, Value: "FILE", From: NoVar, Family: familyHosts, block: true,
		Help: "the same as --hostfile",
		Set:  (*Line).setHostFile,
	},
	{
		Names: []string{"gwdir"}, Group: GroupMPI, Value: "DIR", Dirs: true, From: NoVar, Family: familyDir,
		Help: "the same as --chdir, for all programs",
		Set:  func(p *Line, a Arg) error { return text(&p.Spec.Dir, a) },
	},
	{
		Names: []string{"binding"}, Group: GroupMPI, Value: "OBJECT", From: NoVar, block: true, Family: familyBind,
		Help: "the same as --bind-to",
		Set:  (*Line).setBindTo,
	},
	{
		Names: []string{"membind"}, Group: GroupMPI, Value: "POLICY", From: NoVar, Family: familyMemory,
		Help: "the same as --bind-mem: none, firsttouch, bind, interleave",
		Set:  (*Line).setMembind,
	},
	{
		Names: []string{"gpus-per-proc", "g"}, Group: GroupMPI, Value: "N|AUTO", From: NoVar, Family: familyGPUs,
		Help: "the same as --gpus-per-rank N --isolate-gpus",
		Set:  (*Line).setGPUsPerProc,
	},
	{
		Names: []string{"usize"}, Group: GroupMPI, Value: "N|SYSTEM|INFINITE", From: NoVar,
		Help: "set MPI_UNIVERSE_SIZE to N or the slots; INFINITE leaves it unset",
		Set:  (*Line).setUniverse,
	},
	{
		Names: []string{"iface"}, Group: GroupMPI, Value: "NAME", From: NoVar,
		Help: "the network interface by which ranks talk, as variables of MPI libraries, NCCL and Gloo; gorun finds its " +
			"own way",
		Set: (*Line).setInterface,
	},
	{
		Names: []string{"launcher", "bootstrap"}, Group: GroupMPI, Value: "NAME", From: NoVar,
		Help: "how other hosts are reached: ssh, rsh, fork, or the resource manager in whose job this is",
		Set:  (*Line).setLauncher,
	},
	{
		Names: []string{"launcher-exec", "bootstrap-exec", "rsh"}, Group: GroupMPI, Value: "'CMD ...'", From: NoVar,
		Family: familySSH,
		Help:   "the same as --ssh",
		Set:    (*Line).setSSH,
	},
	{
		Names: []string{"rmk"}, Group: GroupMPI, Value: "NAME", From: NoVar, Family: familyEngine,
		Help: "the same as --engine; user is none",
		Set:  (*Line).setRMK,
	},
	{
		Names: []string{"disable-auto-cleanup", "dac"}, Group: GroupMPI, From: NoVar, Family: familyFailure,
		Help: "the same as --on-failure continue",
		Set:  func(p *Line, a Arg) error { p.Spec.Policy.Continue = a.On; return nil },
	},
	{
		Names: []string{"info"}, Group: GroupMPI, From: NoVar,
		Help: "print the version",
		Set:  func(p *Line, a Arg) error { p.version = p.version || a.On; return nil },
	},

	{
		Names: []string{"enable-auto-cleanup", "cleanup"}, Group: GroupAccepted, From: NoVar, Set: nothing,
		Help: "the failure of a rank ends the job unless --on-failure continue",
	},
	{
		Names: []string{"disable-hostname-propagation", "enable-hostname-propagation", "hybrid-hosts"},
		Group: GroupAccepted, From: NoVar, Set: nothing, Help: "each host is asked for what it is like",
	},
	{
		Names: []string{"localhost"}, Value: "NAME", Group: GroupAccepted, From: NoVar, Set: nothing,
		Help: "gorun finds by which address others reach this host",
	},
	{
		Names: []string{"topolib", "demux", "use-app-topology"}, Value: "NAME", Group: GroupAccepted, From: NoVar,
		Set: nothing, Help: "there is one way to do that here",
	},
	{
		Names: []string{"disable-x", "noconf", "v6", "prefork", "profile"}, Group: GroupAccepted, From: NoVar,
		Set: nothing, Help: "there is nothing of that kind to be told",
	},
	{
		Names: []string{"pmi-aggregate", "pmi-noaggregate"}, Group: GroupAccepted, From: NoVar, Set: nothing,
		Help: "ranks are served by the agent of their node, whatever the way",
	},
	{
		Names: []string{"pmi-connect"}, Value: "NAME", Group: GroupAccepted, From: NoVar, Set: nothing,
		Help: "ranks are served by the agent of their node, whatever the way",
	},
	{
		Names: []string{"branch-count", "tree-width"}, Value: "N", Group: GroupAccepted, From: NoVar, Set: nothing,
		Help: "all hosts are reached at once, --ssh-at-once of them",
	},
	{
		Names: []string{"silent-abort"}, Group: GroupAccepted, From: NoVar, Set: nothing,
		Help: "an abort is told in a few lines; --quiet leaves out remarks",
	},
	{
		Names: []string{"ordered-output"}, Group: GroupAccepted, From: NoVar, Set: nothing,
		Help: "lines of ranks are never mixed",
	},

	{
		Names: []string{"rankmap"}, Value: "LIST", Group: GroupRefused, From: NoVar,
		Help: "use a rank file with --rankfile, or programs with hosts of their own: -H a -n 2 prog : -H b -n 2 prog",
	},
	{
		Names: []string{"order-nodes"}, Value: "HOW", Group: GroupRefused, From: NoVar,
		Help: "ranks take hosts as you name them; name them in that order",
	},
	{
		Names: []string{"output-from"}, Value: "RANK", Group: GroupRefused, From: NoVar,
		Help: "use --local-ranks-filter RANK, which counts on each host",
	},
	{
		Names: []string{"gpu-subdevs-per-proc"}, Value: "N", Group: GroupRefused, From: NoVar,
		Help: "gorun gives ranks whole GPUs, or parts that MIG made; use --gpus-per-rank",
	},
	{
		Names: []string{"enable-x"}, Group: GroupRefused, From: NoVar,
		Help: "gorun's own SSH forwards no X11; use --ssh 'ssh -X'",
	},
	{
		Names: []string{"bootstrap-exec-args"}, Value: "'ARGS'", Group: GroupRefused, From: NoVar,
		Help: "write them into the command: --ssh 'ssh ARGS'",
	},
	{
		Names: []string{"pmi-args"}, Value: "PORT IFACE KEY PID", words: 4, Group: GroupRefused, From: NoVar,
		Help: "a program that was started without gorun cannot ask it for more ranks: start it by gorun -n 1",
	},
	{
		Names: []string{
			"aps", "mps", "trace", "trace-imbalance", "trace-pt2pt", "trace-collectives", "check-mpi", "check",
			"ilp64", "prot",
		}, Group: GroupRefused, From: NoVar,
		Help: "that is a tool of Intel's, which its own mpiexec loads; put it before the program, as in gorun -n 4 aps ./prog",
	},
	{
		Names: []string{"gtool", "gtoolfile", "gdb-args"}, Value: "WHAT", Group: GroupRefused, From: NoVar,
		Help: "put the tool before the program of the ranks it is for, as in gorun -n 1 valgrind ./prog : -n 3 ./prog",
	},
	{
		Names: []string{"tva", "gdba"}, Value: "PID", Group: GroupRefused, From: NoVar,
		Help: "attach the debugger to the process of a rank: gdb -p PID",
	},
	{
		Names: []string{"gdb-ia"}, Group: GroupRefused, From: NoVar,
		Help: "put the debugger before the program, as in gorun -n 2 xterm -e gdb ./prog",
	},
}

// What the names of one letter mean differs from launcher to launcher; so do --debug and --tune.
var (
	perNodeTable = []Option{
		{
			Names: []string{"N"}, Group: GroupMPI, Value: "N", Attached: true, From: NoVar, Family: FamilyCount, block: true,
			Help: "the same as --nproc-per-node, and a limit beside -n",
			Set:  (*Line).setPPN,
		},
	}
	mpirunTable = []Option{
		{
			Names: []string{"s"}, Group: GroupMPI, From: NoVar, block: true,
			Help: "the same as --preload-binary",
			Set:  func(p *Line, a Arg) error { p.mpi.preload = a.On; return nil },
		},
		{
			Names: []string{"tune"}, Group: GroupMPI, Value: "FILE,...", From: NoVar,
			Help: "the same as --am; auto, off and textbook are gorun's: which settings of NCCL's ranks get",
			Set:  (*Line).setTune,
		},
		{
			Names: []string{"debug"}, Group: GroupRefused, From: NoVar,
			Help: "put the debugger before the program, as in mpirun -n 2 xterm -e gdb ./prog",
		},
	}
	mpiexecTable = []Option{
		{
			Names: []string{"s"}, Group: GroupMPI, Value: "all|RANKS", From: NoVar, Family: familyStdin,
			Help: "which ranks read standard input",
			Set:  func(p *Line, a Arg) (err error) { p.Spec.Stdin, err = parseStdin(a.Value); return err },
		},
		{
			Names: []string{"tune"}, Group: GroupMPI, Value: "FILE", From: NoVar,
			Help: "a file of Intel MPI's tuning data: ranks get I_MPI_TUNING_BIN=FILE; Open MPI's files of parameters are -am " +
				"FILE; auto, off and textbook are gorun's: which settings of NCCL's ranks get",
			Set: (*Line).setTuningData,
		},
		{
			Names: []string{"debug"}, Group: GroupMPI, From: NoVar, Family: familyLoudness,
			Help: "the same as -v",
			Set:  (*Line).setVerbose,
		},
	}
	// unclearTable are those in gorun's own dialect, where nobody can know who is meant.
	unclearTable = []Option{
		{
			Names: []string{"N"}, Value: "N", Attached: true, Group: GroupRefused,
			Help: "use --nproc-per-node N for ranks per node, as with mpirun; for nodes, as with Slurm, --nnodes N",
		},
		{
			Names: []string{"s"}, Group: GroupRefused, From: NoVar,
			Help: "use --copy with the program's path, which mpirun means, or --stdin RANK, which Intel's mpiexec means",
		},
		{
			Names: []string{"debug"}, Group: GroupRefused, From: NoVar,
			Help: "use -v to see what gorun decides; a debugger stands before the program, as in gorun -n 2 xterm -e gdb ./prog",
		},
	}
)
