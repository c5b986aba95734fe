package dialect

import "slices"

// openmpiTable holds what Open MPI 4's and 5's mpirun has beside mpiTable. No variable gives their defaults.
func openmpiTable(p *Line) []Option {
	return slices.Concat(inGroup(GroupMPI, p.openmpiEnvironment()), inGroup(GroupMPI, p.openmpiPlaces()),
		inGroup(GroupMPI, p.openmpiRun()), openmpiIgnored(), openmpiRefused())
}

func (p *Line) openmpiEnvironment() []Option {
	return []Option{
		{
			Names: "mca gmca omca gomca", Value: "KEY VALUE", words: 2, block: true,
			Help: "export OMPI_MCA_KEY=VALUE; apply what concerns the launcher", Set: p.setParameter("OMPI_MCA_"),
		},
		{
			Names: "prtemca", Value: "KEY VALUE", words: 2, Set: p.setParameter("PRTE_MCA_"),
			Help: "export PRTE_MCA_KEY=VALUE; apply what concerns the launcher",
		},
		{
			Names: "pmixmca gpmixmca", Value: "KEY VALUE", words: 2, block: true,
			Help: "export PMIX_MCA_KEY=VALUE to ranks", Set: p.setParameter(pmixPrefix),
		},
		{
			Names: "am amca", Value: "FILE,...", Set: p.setTune,
			Help: "read lines KEY = VALUE, -mca KEY VALUE or -x NAME=VALUE from FILE",
		},
		{
			Names: "set-env", Value: "NAME=VALUE", block: true, Set: p.setExport,
			Help: "act as -x NAME=VALUE",
		},
		{
			Names: "unset-env", Value: "NAME", block: true, Set: p.setUnset,
			Help: "remove NAME from ranks' environment; PRE* removes several",
		},
		{
			Names: "append-env", Value: "NAME[C] VALUE", words: 2, block: true, Set: p.extend(true),
			Help: "append VALUE after character C, such as PATH[:] /opt/bin",
		},
		{
			Names: "prepend-env", Value: "NAME[C] VALUE", words: 2, block: true, Set: p.extend(false),
			Help: "prepend VALUE and character C, such as PATH[:] /opt/bin",
		},
		{
			Names: "app", Value: "FILE", block: true, Set: refuseProgramFile,
			Help: "read the programs of one job from FILE, one on each line",
		},
	}
}

func (p *Line) openmpiPlaces() []Option {
	return []Option{
		{
			Names: "default-hostfile", Value: "FILE", Family: familyDefaultHosts, Set: keep(&p.defaultHostFile),
			Help: "read hosts from FILE if nothing else names hosts",
		},
		{
			Names: "nooversubscribe", Family: familyOversubscribe, Set: p.setOversubscribe(false),
			Help: "refuse more ranks than slots or CPUs",
		},
		{
			Names: "nolocal skip-launch-node", Family: familyNoLocal, Set: switchFrom(&p.nolocalFrom),
			Help: "run no rank on this host",
		},
		p.alias(familyMap, "--map-by node", "", "bynode"),
		p.alias(familyMap, "--map-by slot", "", "byslot"),
		p.alias(familyMap, "--map-by core", "", "bycore"),
		p.alias(familyMap, "--map-by socket", "", "bysocket"),
		p.alias(familyBind, "--bind-to core", "", "bind-to-core"),
		p.alias(familyBind, "--bind-to socket", "", "bind-to-socket"),
		p.alias(familyBind, "--bind-to none", "", "bind-to-none"),
		{
			Names: "cpus-per-proc", Value: "N", block: true, Family: familyPE, Set: p.setPE,
			Help: "give each rank N cores, as pe=N of --map-by",
		},
		p.alias(familyMap, "--map-by ppr:N:socket", "N", "npersocket"),
		p.alias(familyMap, "--map-by ppr:N:OBJECT", "N:OBJECT", "ppr"),
	}
}

func (p *Line) openmpiRun() []Option {
	return []Option{
		{Names: "do-not-launch", Family: familyDryRun, Set: p.as("--dry-run", ""), Help: "act as --dry-run"},
		{
			Names: "enable-recovery", Family: familyFailure, Set: Switch(&p.Spec.Policy.Continue),
			Help: "act as --on-failure continue",
		},
		{
			Names: "fwd-environment", Family: familyExport, Set: p.setExportAll, Help: "act as --export-all",
		},
		{
			Names: "get-stack-traces", Set: Switch(&p.Spec.StacksAtTimeout),
			Help: "report what each rank does at --timeout, with stacks",
		},
		{
			Names: "cpu-list cpu-set", Value: "LIST", Family: familyBind, Set: p.cpus.parsed(parseCPUs),
			Help: "bind ranks to CPUs such as 0-3,8",
		},
		{
			Names: "spawn-timeout", Value: "SECONDS", Family: familySSHTimeout,
			Help: "act as --ssh-timeout", Set: p.as("--ssh-timeout", "SECONDS"),
		},
		{
			Names: "preload-binary", block: true, Set: Switch(&p.preload),
			Help: "send the program to the other hosts, as --copy does",
		},
		{
			Names: "preload-files", Value: "PATH,...", Set: p.setPreloadFiles, Help: "act as --copy of each PATH",
		},
		{
			Names: "display-comm", Set: p.displayComm("mpi_init"),
			Help: "make Open MPI 5 print in MPI_Init how ranks communicate",
		},
		{
			Names: "display-comm-finalize", Set: p.displayComm("mpi_finalize"),
			Help: "make Open MPI 5 print in MPI_Finalize how ranks communicate",
		},
		{
			Names: "stream-buffering", Value: "0|1|2", Set: p.setBuffering,
			Help: "buffer output of Open MPI 5: 0 not, 1 by lines, 2 in full",
		},
		{
			Names: "prefix", Value: "DIR", Dirs: true, block: true, Set: p.setPrefix,
			Help: "put DIR/bin first in PATH, and DIR/lib in LD_LIBRARY_PATH",
		},
		{
			Names: "path", Value: "DIR:...", block: true, Set: Text(&p.app.Path),
			Help: "look for the program in DIR before PATH",
		},
		{
			Names: "gpath", Value: "DIR:...", Set: Text(&p.searchPath),
			Help: "look in DIR for all programs without --path",
		},
	}
}

func openmpiIgnored() []Option {
	return []Option{
		beforeEach(ignored("DIR", "gorun speaks PMIx itself, without a library", "pmix-prefix app-pmix-prefix")),
		beforeEach(ignored("", "gorun uses no files of other launchers", "noprefix no-app-prefix")),
		ignored("PATH", "gorun copies its own agents to hosts; --agent PATH names a gorun that is installed there",
			"launch-agent"),
		ignored("NAME", "gorun serves all MPI libraries at the same time", "personality"),
		ignored("N", "gorun starts agents only on hosts with ranks", "max-vm-size"),
		ignored("", "gorun has no Open MPI daemons",
			"novm hetero-nodes fwd-mpirun-port use-regexp do-not-resolve enable-instant-on-support "+
				"set-sid"),
		ignored("", "messages of agents always appear here; -v adds more",
			"debug-devel debug-daemons debug-daemons-file leave-session-attached d"),
		ignored("", "there is no such text", "no-aggregate-help parseable parsable no-ready-msg"),
		ignored("", "gorun shows the progress of a slow start on a terminal anyway", "show-progress"),
		ignored("", "gorun always reports how each rank ended; --report FILE writes it as JSON", "report-state-on-timeout"),
		ignored("", "the failure of a rank ends the job unless --on-failure continue", "disable-recovery"),
		ignored("DIR", "gorun has no session directory; it keeps a few private files in TMPDIR", "tmpdir"),
	}
}

func openmpiRefused() []Option {
	const noMachine = "gorun has no virtual machine that outlives a job; use "
	return []Option{
		refused("", "spawned ranks belong to the job; use --report FILE, which has each exit code",
			"report-child-jobs-separately"),
		refused("LIST", "use the separate options: --timeout, --on-failure continue, --max-restarts, --dry-run, --export-all",
			"runtime-options rtos"),
		refused("", "use --max-restarts to restart the job, or --on-failure continue to keep other ranks running",
			"continuous"),
		refused("KIND", "gorun does not support MPI's fault tolerance; use --on-failure continue to keep other ranks running",
			"with-ft"),
		refused("NAME", "gorun does not pass it on: call MPI_Comm_set_errhandler in the program", "initial-errhandler"),
		refused("LIST", "gorun does not pass it on: request them in the info of MPI_Session_init",
			"memory-alloc-kinds"),
		refused("BOOL", "use --mca accelerator null to run Open MPI without GPUs; by default it uses them",
			"gpu-support"),
		refused("NAME", "gorun has only mpi://WORLD and mpi://SELF; leave it out", "pset"),
		refused("LIST", noMachine+"-H LIST", "add-host"),
		refused("FILE", noMachine+"--hostfile FILE", "add-hostfile"),
		refused("URI", "gorun has no server that outlives a job; ranks of one job publish and look up names without "+
			"it: leave it out", "hnp ompi-server dvm-uri nameserver"),
		refused("", "gorun has no daemon that outlives a job: leave it out", "dvm singleton system-server"),
		refused("WHERE", "no tools connect to gorun; use --report FILE for how the job ended", "keepalive report-events"),
		refused("", "gorun does not support parallel debuggers; put one before the program, as in gorun -n 2 xterm "+
			"-e gdb ./prog",
			"stop-on-exec stop-in-init stop-in-app"),
		refused("WHAT", "put such a program before yours, as in gorun -n 2 xterm -hold -e ./prog", "debugger xterm"),
		refused("", debuggerFirst, "tv gdb idb"),
		refused("", "programs keep their names; use RANK or line labels to distinguish ranks", "index-argv-by-rank"),
		refused("", "gorun has no session directory; use --chdir DIR", "set-cwd-to-session-dir"),
		refused("FILE", "gorun reads the machine's topology from the kernel; gorun topo shows it", "cartofile cf"),
		refused("", noXML, "xml"),
		refused("FILE", noXML, "xml-file"),
		refused("WHAT", "the MPI standard names it, but no launcher supports it; use -n and -H", "arch soft file"),
	}
}
