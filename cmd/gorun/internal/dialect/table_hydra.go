package dialect

import "slices"

// hydraTable holds what MPICH's and Intel's mpiexec has beside mpiTable.
func hydraTable(p *Line) []Option {
	return slices.Concat(inGroup(GroupMPI, p.hydraEnvironment()), inGroup(GroupMPI, p.hydraPlaces()),
		inGroup(GroupMPI, p.hydraLauncher()), hydraOthers())
}

func (p *Line) hydraEnvironment() []Option {
	return []Option{
		{
			Names: "genv", Value: "NAME VALUE", words: 2, Set: p.setEnv,
			Help: "export NAME=VALUE to ranks of all programs",
		},
		{
			Names: "env", Value: "NAME VALUE", words: 2, block: true, Set: p.setEnv,
			Help: "export NAME=VALUE to ranks of this program",
		},
		{
			Names: "genvlist", Value: "NAME,...", Family: familyExport, Set: p.setEnvList,
			Help: "export only these variables of this environment",
		},
		{
			Names: "envlist", Value: "NAME,...", block: true, Family: familyExport, Set: p.setEnvList,
			Help: "act as -genvlist, in a job of one program",
		},
		{
			Names: "genvnone", Family: familyExport, Set: p.setEnvNone,
			Help: "export nothing of this environment but what other options name",
		},
		{
			Names: "envnone", block: true, Family: familyExport, Set: p.setEnvNone,
			Help: "act as -genvnone, in a job of one program",
		},
		{
			Names: "envall", block: true, Family: familyExport, Set: p.setEnvAll,
			Help: "act as --export-all, for all programs",
		},
		{
			Names: "genvexcl", Value: "NAME,...", Set: p.setEnvExcl,
			Help: "remove variables from ranks' environment",
		},
		{
			Names: "envexcl", Value: "NAME,...", block: true, Set: p.setEnvExcl,
			Help: "remove variables from the environment of this program's ranks",
		},
		{
			Names: "configfile", Value: "FILE", block: true, Set: refuseProgramFile,
			Help: "read programs with their options from FILE, one on each line",
		},
	}
}

func (p *Line) hydraPlaces() []Option {
	return []Option{
		{
			Names: "ppn perhost npernode grr", Value: "N", Attached: true, Family: FamilyCount, block: true,
			Set: p.setPPN, Help: "act as --nproc-per-node; beside -n, N is a limit",
		},
		{
			Names: "pernode", Family: FamilyCount, block: true, Set: one(p.setPPN),
			Help: "start one rank on each node",
		},
		{Names: "rr", Family: familyMap, Set: p.as("--map-by node", ""), Help: "act as --map-by node"},
		{
			Names: "machine machines machinelist", Value: "HOST,...", Family: familyHosts, block: true,
			Set: p.setMachines, Help: "act as --host; a value with a slash is a host file",
		},
		{
			Names: "f", Value: "FILE", Family: familyHosts, block: true, Set: p.setHostFile,
			Help: "act as --hostfile",
		},
		{
			Names: "gwdir", Value: "DIR", Dirs: true, Family: familyDir, Set: Text(&p.Spec.Dir),
			Help: "act as --chdir, for all programs",
		},
		p.alias(familyBind, "--bind-to", "OBJECT", "binding"),
		{
			Names: "membind", Value: "POLICY", Family: familyMemory, Set: p.setMembind,
			Help: "act as --bind-mem: none, firsttouch, bind, interleave",
		},
		{
			Names: "gpus-per-proc g", Value: "N|AUTO", Family: familyGPUs, Set: p.setGPUsPerProc,
			Help: "act as --gpus-per-rank N --isolate-gpus",
		},
		{
			Names: "usize", Value: "N|SYSTEM|INFINITE", Set: p.setUniverse,
			Help: "set MPI_UNIVERSE_SIZE to N or the number of slots (INFINITE: unset)",
		},
	}
}

func (p *Line) hydraLauncher() []Option {
	return []Option{
		{
			Names: "iface", Value: "NAME", Set: p.setInterface,
			Help: "set the network interface of MPI libraries, NCCL and Gloo",
		},
		{
			Names: "launcher bootstrap", Value: "NAME", Set: p.setLauncher,
			Help: "reach other hosts by ssh, rsh, fork or a resource manager",
		},
		{
			Names: "launcher-exec bootstrap-exec rsh", Value: "'CMD ...'", Family: familySSH, Set: p.setSSH,
			Help: "act as --ssh",
		},
		{
			Names: "rmk", Value: "NAME", Family: familyEngine, Set: p.engine.wanted.parsed(parseRMK),
			Help: "act as --engine; user means none",
		},
		{
			Names: "disable-auto-cleanup dac", Family: familyFailure, Set: Switch(&p.Spec.Policy.Continue),
			Help: "act as --on-failure continue",
		},
		{Names: "info", Help: "print the version", Set: p.as("--version", "")},
	}
}

func hydraOthers() []Option {
	const ofAgent = "the agent of each node serves its ranks in any case"
	pmiArgs := refused("PORT IFACE KEY PID", "a program that runs without gorun cannot request ranks from it: start "+
		"it with gorun -n 1", "pmi-args")
	pmiArgs.words = 4
	return []Option{
		ignored("", "the failure of a rank ends the job unless --on-failure continue", "enable-auto-cleanup cleanup"),
		ignored("", "gorun asks each host itself", "disable-hostname-propagation enable-hostname-propagation hybrid-hosts"),
		ignored("NAME", "gorun finds the address of this host itself", "localhost"),
		ignored("NAME", "gorun has only one implementation", "topolib demux use-app-topology"),
		ignored("", "gorun has nothing like it", "disable-x noconf v6 prefork profile"),
		ignored("", ofAgent, "pmi-aggregate pmi-noaggregate"),
		ignored("NAME", ofAgent, "pmi-connect"),
		ignored("N", "gorun reaches all hosts in parallel, --ssh-at-once at a time", "branch-count tree-width"),
		ignored("", "gorun reports an abort in a few lines; --quiet hides notes", "silent-abort"),
		ignored("", "gorun never mixes lines of ranks", "ordered-output"),

		refused("LIST", "use a rank file with --rankfile, or programs with hosts of their own: -H a -n 2 prog : -H b -n 2 "+
			"prog", "rankmap"),
		refused("HOW", "ranks use hosts in the order that you name them", "order-nodes"),
		refused("RANK", "use --local-ranks-filter RANK, which counts on each host", "output-from"),
		refused("N", "gorun gives ranks whole GPUs or MIG instances; use --gpus-per-rank", "gpu-subdevs-per-proc"),
		refused("", "gorun's own SSH forwards no X11; use --ssh 'ssh -X'", "enable-x"),
		refused("'ARGS'", "write them into the command: --ssh 'ssh ARGS'", "bootstrap-exec-args"),
		pmiArgs,
		refused("", "that is an Intel tool, which its own mpiexec loads; put it before the program, as in gorun -n 4 "+
			"aps ./prog", "aps mps trace trace-imbalance trace-pt2pt trace-collectives check-mpi ilp64 prot"),
		refused("WHAT", "put the tool before the program of its ranks, as in gorun -n 1 valgrind ./prog : -n 3 ./prog",
			"gtool gtoolfile gdb-args"),
		refused("PID", "attach the debugger to the process of a rank: gdb -p PID", "tva gdba"),
		refused("", debuggerFirst, "gdb-ia"),
	}
}

const debuggerFirst = "put the debugger before the program, as in gorun -n 2 xterm -e gdb ./prog"

// One-letter names, --debug and --tune differ between launchers.

// perNodeTable is what mpirun and mpiexec share of them.
func perNodeTable(p *Line) []Option {
	return []Option{{
		Names: "N", Group: GroupMPI, Value: "N", Attached: true, Family: FamilyCount, block: true, Set: p.setPPN,
		Help: "act as --nproc-per-node; beside -n, N is a limit",
	}}
}

func mpirunTable(p *Line) []Option {
	return []Option{
		{
			Names: "s", Group: GroupMPI, block: true, Set: Switch(&p.preload), Help: "act as --preload-binary",
		},
		{
			Names: "tune", Group: GroupMPI, Value: "FILE,...", Set: p.setTune,
			Help: "act as --am; auto, off and textbook are gorun's --tune",
		},
		refused("", "put the debugger before the program, as in mpirun -n 2 xterm -e gdb ./prog", "debug"),
	}
}

func mpiexecTable(p *Line) []Option {
	return inGroup(GroupMPI, []Option{
		{
			Names: "s", Value: "all|RANKS", Family: familyStdin, Set: p.as("--stdin", "RANKS"),
			Help: "act as --stdin",
		},
		{
			Names: "tune", Value: "FILE", Set: p.setTuningData,
			Help: "export I_MPI_TUNING_BIN=FILE; auto, off, textbook are gorun's --tune",
		},
		{Names: "debug", Family: familyLoudness, Set: p.setVerbose, Help: "act as --verbose"},
	})
}
