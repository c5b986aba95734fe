package dialect

import "slices"

// hydraTable holds what mpiexec of MPICH's and Intel's Hydra has beside mpiTable.
func hydraTable(p *Line) []Option {
	return slices.Concat(p.hydraEnvironment(), p.hydraPlaces(), p.hydraLauncher(), hydraOthers())
}

// hydraEnvironment is about the variables that ranks get, and a file of programs.
func (p *Line) hydraEnvironment() []Option {
	return inGroup(GroupMPI, []Option{
		{
			Names: []string{"genv"}, Value: "NAME VALUE", words: 2, Set: p.setEnv,
			Help: "give ranks of all programs a variable; NAME=VALUE may stand in one word",
		},
		{
			Names: []string{"env"}, Value: "NAME VALUE", words: 2, block: true, Set: p.setEnv,
			Help: "give ranks of this program a variable",
		},
		{
			Names: []string{"genvlist"}, Value: "NAME,...", Family: familyExport, Set: p.setEnvList,
			Help: "of this environment ranks get these variables alone",
		},
		{
			Names: []string{"envlist"}, Value: "NAME,...", block: true, Family: familyExport,
			Help: "the same, for the job of one program", Set: p.setEnvList,
		},
		{
			Names: []string{"genvnone"}, Family: familyExport, Set: p.setEnvNone,
			Help: "ranks get nothing of this environment, but what other options give them",
		},
		{
			Names: []string{"envnone"}, block: true, Family: familyExport, Set: p.setEnvNone,
			Help: "the same, for the job of one program",
		},
		{
			Names: []string{"envall"}, block: true, Family: familyExport, Set: p.setEnvAll,
			Help: "the same as --export-all, of all programs",
		},
		{
			Names: []string{"genvexcl"}, Value: "NAME,...", Set: p.setEnvExcl,
			Help: "take variables away from ranks",
		},
		{
			Names: []string{"envexcl"}, Value: "NAME,...", block: true, Set: p.setEnvExcl,
			Help: "the same, of this program",
		},
		{
			Names: []string{"configfile"}, Value: "FILE", block: true, Set: refuseProgramFile,
			Help: "the rest of the command line from a file, a program with its options on each line",
		},
	})
}

// hydraPlaces is about how many ranks there are, and where.
func (p *Line) hydraPlaces() []Option {
	return inGroup(GroupMPI, []Option{
		{
			Names: []string{"ppn", "perhost", "npernode", "grr"}, Value: "N", Attached: true,
			Family: FamilyCount, block: true, Set: p.setPPN, Help: "the same as --nproc-per-node, and a limit beside -n",
		},
		{
			Names: []string{"pernode"}, Family: FamilyCount, block: true, Set: one(p.setPPN),
			Help: "one rank per node",
		},
		{
			Names: []string{"rr"}, Family: familyMap, Set: p.as("--map-by node", ""),
			Help: "ranks go round the nodes, as with --map-by node",
		},
		{
			Names: []string{"machine", "machines", "machinelist"}, Value: "HOST,...", Family: familyHosts,
			block: true, Set: p.setMachines, Help: "hosts, as behind -H; what has a slash is a host file",
		},
		{
			Names: []string{"f"}, Value: "FILE", Family: familyHosts, block: true, Set: p.setHostFile,
			Help: "the same as --hostfile",
		},
		{
			Names: []string{"gwdir"}, Value: "DIR", Dirs: true, Family: familyDir, Set: Text(&p.Spec.Dir),
			Help: "the same as --chdir, for all programs",
		},
		p.same(familyBind, "--bind-to", "OBJECT", "binding"),
		{
			Names: []string{"membind"}, Value: "POLICY", Family: familyMemory, Set: p.setMembind,
			Help: "the same as --bind-mem: none, firsttouch, bind, interleave",
		},
		{
			Names: []string{"gpus-per-proc", "g"}, Value: "N|AUTO", Family: familyGPUs,
			Help: "the same as --gpus-per-rank N --isolate-gpus", Set: p.setGPUsPerProc,
		},
		{
			Names: []string{"usize"}, Value: "N|SYSTEM|INFINITE", Set: p.setUniverse,
			Help: "set MPI_UNIVERSE_SIZE to N or the slots; INFINITE leaves it unset",
		},
	})
}

// hydraLauncher is about how other hosts are reached.
func (p *Line) hydraLauncher() []Option {
	return inGroup(GroupMPI, []Option{
		{
			Names: []string{"iface"}, Value: "NAME", Set: p.setInterface,
			Help: "the network interface by which ranks talk, as variables of MPI libraries, NCCL and Gloo; gorun finds its " +
				"own way",
		},
		{
			Names: []string{"launcher", "bootstrap"}, Value: "NAME", Set: p.setLauncher,
			Help: "how other hosts are reached: ssh, rsh, fork, or the resource manager in whose job this is",
		},
		{
			Names: []string{"launcher-exec", "bootstrap-exec", "rsh"}, Value: "'CMD ...'",
			Family: familySSH, Help: "the same as --ssh", Set: p.setSSH,
		},
		{
			Names: []string{"rmk"}, Value: "NAME", Family: familyEngine, Set: p.engine.wanted.parsed(parseRMK),
			Help: "the same as --engine; user is none",
		},
		{
			Names: []string{"disable-auto-cleanup", "dac"}, Family: familyFailure,
			Help: "the same as --on-failure continue", Set: Switch(&p.Spec.Policy.Continue),
		},
		{Names: []string{"info"}, Help: "print the version", Set: p.as("--version", "")},
	})
}

// hydraOthers are those that have nothing to do, and those that are refused.
func hydraOthers() []Option {
	const ofAgent = "ranks are served by the agent of their node, whatever the way"
	pmiArgs := refused("PORT IFACE KEY PID", "a program that was started without gorun cannot ask it for more ranks: "+
		"start it by gorun -n 1", "pmi-args")
	pmiArgs.words = 4
	return []Option{
		ignored("", "the failure of a rank ends the job unless --on-failure continue", "enable-auto-cleanup", "cleanup"),
		ignored("", "each host is asked for what it is like", "disable-hostname-propagation", "enable-hostname-propagation",
			"hybrid-hosts"),
		ignored("NAME", "gorun finds by which address others reach this host", "localhost"),
		ignored("NAME", "there is one way to do that here", "topolib", "demux", "use-app-topology"),
		ignored("", "there is nothing of that kind to be told", "disable-x", "noconf", "v6", "prefork", "profile"),
		ignored("", ofAgent, "pmi-aggregate", "pmi-noaggregate"),
		ignored("NAME", ofAgent, "pmi-connect"),
		ignored("N", "all hosts are reached at once, --ssh-at-once of them", "branch-count", "tree-width"),
		ignored("", "an abort is told in a few lines; --quiet leaves out remarks", "silent-abort"),
		ignored("", "lines of ranks are never mixed", "ordered-output"),

		refused("LIST", "use a rank file with --rankfile, or programs with hosts of their own: -H a -n 2 prog : -H b -n 2 "+
			"prog", "rankmap"),
		refused("HOW", "ranks take hosts as you name them; name them in that order", "order-nodes"),
		refused("RANK", "use --local-ranks-filter RANK, which counts on each host", "output-from"),
		refused("N", "gorun gives ranks whole GPUs, or parts that MIG made; use --gpus-per-rank", "gpu-subdevs-per-proc"),
		refused("", "gorun's own SSH forwards no X11; use --ssh 'ssh -X'", "enable-x"),
		refused("'ARGS'", "write them into the command: --ssh 'ssh ARGS'", "bootstrap-exec-args"),
		pmiArgs,
		refused("", "that is a tool of Intel's, which its own mpiexec loads; put it before the program, as in gorun -n 4 "+
			"aps ./prog", "aps", "mps", "trace", "trace-imbalance", "trace-pt2pt", "trace-collectives", "check-mpi", "check",
			"ilp64", "prot"),
		refused("WHAT", "put the tool before the program of the ranks it is for, as in gorun -n 1 valgrind ./prog : -n 3 "+
			"./prog", "gtool", "gtoolfile", "gdb-args"),
		refused("PID", "attach the debugger to the process of a rank: gdb -p PID", "tva", "gdba"),
		refused("", debuggerFirst, "gdb-ia"),
	}
}

// debuggerFirst is what is said of options that start a debugger.
const debuggerFirst = "put the debugger before the program, as in gorun -n 2 xterm -e gdb ./prog"

// What the names of one letter mean differs from launcher to launcher; so do --debug and --tune.

// perNodeTable is what mpirun and mpiexec share of that.
func perNodeTable(p *Line) []Option {
	return []Option{{
		Names: []string{"N"}, Group: GroupMPI, Value: "N", Attached: true, Family: FamilyCount, block: true, Set: p.setPPN,
		Help: "the same as --nproc-per-node, and a limit beside -n",
	}}
}

func mpirunTable(p *Line) []Option {
	return []Option{
		{
			Names: []string{"s"}, Group: GroupMPI, block: true, Set: Switch(&p.preload),
			Help: "the same as --preload-binary",
		},
		{
			Names: []string{"tune"}, Group: GroupMPI, Value: "FILE,...", Set: p.setTune,
			Help: "the same as --am; auto, off and textbook are gorun's: which settings of NCCL's ranks get",
		},
		refused("", "put the debugger before the program, as in mpirun -n 2 xterm -e gdb ./prog", "debug"),
	}
}

func mpiexecTable(p *Line) []Option {
	return []Option{
		{
			Names: []string{"s"}, Group: GroupMPI, Value: "all|RANKS", Family: familyStdin, Set: p.as("--stdin", "RANKS"),
			Help: "which ranks read standard input",
		},
		{
			Names: []string{"tune"}, Group: GroupMPI, Value: "FILE", Set: p.setTuningData,
			Help: "a file of Intel MPI's tuning data: ranks get I_MPI_TUNING_BIN=FILE; Open MPI's files of parameters are -am " +
				"FILE; auto, off and textbook are gorun's: which settings of NCCL's ranks get",
		},
		{
			Names: []string{"debug"}, Group: GroupMPI, Family: familyLoudness, Set: p.setVerbose,
			Help: "the same as -v",
		},
	}
}
