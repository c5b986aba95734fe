package dialect

// openmpiTable holds what mpirun of Open MPI 4 and 5 has beside mpiTable. Its rows of
// GroupMPI do what they do there; no variable gives their defaults.
var openmpiTable = []Option{
	{
		Names: []string{"mca", "gmca", "omca", "gomca"}, Group: GroupMPI, Value: "KEY VALUE", words: 2, From: NoVar,
		block: true,
		Help: "a parameter of Open MPI's: ranks get it as OMPI_MCA_KEY; what is the launcher's own (places, " +
			"oversubscription, ssh) is done, too",
		Set: (*Line).setMCA,
	},
	{
		Names: []string{"prtemca"}, Group: GroupMPI, Value: "KEY VALUE", words: 2, From: NoVar,
		Help: "the same for Open MPI 5's launcher: ranks get PRTE_MCA_KEY",
		Set:  (*Line).setPRTEMCA,
	},
	{
		Names: []string{"pmixmca", "gpmixmca"}, Group: GroupMPI, Value: "KEY VALUE", words: 2, From: NoVar, block: true,
		Help: "a parameter of PMIx's: ranks get it as PMIX_MCA_KEY",
		Set:  (*Line).setPMIXMCA,
	},
	{
		Names: []string{"am", "amca"}, Group: GroupMPI, Value: "FILE,...", From: NoVar,
		Help: "files of such parameters, a line each: KEY = VALUE, or -mca KEY VALUE and -x NAME=VALUE",
		Set:  (*Line).setTune,
	},
	{
		Names: []string{"set-env"}, Group: GroupMPI, Value: "NAME=VALUE", From: NoVar, block: true,
		Help: "the same as -x NAME=VALUE",
		Set:  (*Line).setExport,
	},
	{
		Names: []string{"unset-env"}, Group: GroupMPI, Value: "NAME", From: NoVar, block: true,
		Help: "take a variable away from ranks; PRE* means all that begin so",
		Set:  (*Line).setUnset,
	},
	{
		Names: []string{"append-env"}, Group: GroupMPI, Value: "NAME[C] VALUE", words: 2, From: NoVar, block: true,
		Help: "give ranks a variable with VALUE behind its value, C between them: append-env PATH[:] /opt/bin",
		Set:  func(p *Line, a Arg) error { return p.setLonger(a, true) },
	},
	{
		Names: []string{"prepend-env"}, Group: GroupMPI, Value: "NAME[C] VALUE", words: 2, From: NoVar, block: true,
		Help: "the same with VALUE before it",
		Set:  func(p *Line, a Arg) error { return p.setLonger(a, false) },
	},
	{
		Names: []string{"app"}, Group: GroupMPI, Value: "FILE", From: NoVar, block: true,
		Help: "programs of one job from a file, a line each with its own -n",
		Set:  (*Line).setProgramFile,
	},
	{
		Names: []string{"default-hostfile"}, Group: GroupMPI, Value: "FILE", From: NoVar, Family: familyDefaultHosts,
		Help: "the host file where nothing else names hosts",
		Set:  func(p *Line, a Arg) error { p.mpi.defaultHosts = a; return text(new(string), a) },
	},
	{
		Names: []string{"nooversubscribe"}, Group: GroupMPI, From: NoVar, Family: familyOversubscribe,
		Help: "refuse more ranks than slots or CPUs",
		Set:  func(p *Line, a Arg) error { return p.setOversubscribe(a, false) },
	},
	{
		Names: []string{"nolocal", "skip-launch-node"}, Group: GroupMPI, From: NoVar, Family: familyNoLocal,
		Help: "no rank on this host",
		Set:  func(p *Line, a Arg) error { return keep(&p.mpi.nolocal, a) },
	},
	{
		Names: []string{"bynode"}, Group: GroupMPI, From: NoVar, block: true, Family: familyMap,
		Help: "the same as --map-by node",
		Set:  func(p *Line, a Arg) error { return p.setMapWord(a, "node") },
	},
	{
		Names: []string{"byslot"}, Group: GroupMPI, From: NoVar, block: true, Family: familyMap,
		Help: "the same as --map-by slot",
		Set:  func(p *Line, a Arg) error { return p.setMapWord(a, "slot") },
	},
	{
		Names: []string{"bycore"}, Group: GroupMPI, From: NoVar, block: true, Family: familyMap,
		Help: "the same as --map-by core",
		Set:  func(p *Line, a Arg) error { return p.setMapWord(a, "core") },
	},
	{
		Names: []string{"bysocket"}, Group: GroupMPI, From: NoVar, block: true, Family: familyMap,
		Help: "the same as --map-by socket",
		Set:  func(p *Line, a Arg) error { return p.setMapWord(a, "socket") },
	},
	{
		Names: []string{"bind-to-core"}, Group: GroupMPI, From: NoVar, block: true, Family: familyBind,
		Help: "the same as --bind-to core",
		Set:  func(p *Line, a Arg) error { return p.setBindWord(a, "core") },
	},
	{
		Names: []string{"bind-to-socket"}, Group: GroupMPI, From: NoVar, block: true, Family: familyBind,
		Help: "the same as --bind-to socket",
		Set:  func(p *Line, a Arg) error { return p.setBindWord(a, "socket") },
	},
	{
		Names: []string{"bind-to-none"}, Group: GroupMPI, From: NoVar, block: true, Family: familyBind,
		Help: "the same as --bind-to none",
		Set:  func(p *Line, a Arg) error { return p.setBindWord(a, "none") },
	},
	{
		Names: []string{"cpus-per-proc"}, Group: GroupMPI, Value: "N", From: NoVar, block: true, Family: familyPE,
		Help: "cores of each rank, as pe=N of --map-by",
		Set:  (*Line).setPE,
	},
	{
		Names: []string{"npersocket"}, Group: GroupMPI, Value: "N", From: NoVar, block: true, Family: familyMap,
		Help: "the same as --map-by ppr:N:socket",
		Set:  func(p *Line, a Arg) error { return p.setMapBy(a, "ppr:"+a.Value+":socket") },
	},
	{
		Names: []string{"ppr"}, Group: GroupMPI, Value: "N:OBJECT", From: NoVar, block: true, Family: familyMap,
		Help: "the same as --map-by ppr:N:OBJECT",
		Set:  func(p *Line, a Arg) error { return p.setMapBy(a, "ppr:"+a.Value) },
	},
	{
		Names: []string{"do-not-launch"}, Group: GroupMPI, From: NoVar, Family: familyDryRun,
		Help: "the same as --dry-run",
		Set:  func(p *Line, a Arg) error { p.DryRun = p.DryRun || a.On; return nil },
	},
	{
		Names: []string{"enable-recovery"}, Group: GroupMPI, From: NoVar, Family: familyFailure,
		Help: "the same as --on-failure continue",
		Set:  func(p *Line, a Arg) error { p.Spec.Policy.Continue = a.On; return nil },
	},
	{
		Names: []string{"fwd-environment"}, Group: GroupMPI, From: NoVar, Family: familyExport,
		Help: "the same as --export-all",
		Set:  (*Line).setExportAll,
	},
	{
		Names: []string{"get-stack-traces"}, Group: GroupMPI, From: NoVar,
		Help: "say what each rank does when --timeout runs out: stacks of Go and Python, else the kernel's",
		Set:  func(p *Line, a Arg) error { p.Spec.StacksAtTimeout = a.On; return nil },
	},
	{
		Names: []string{"cpu-list", "cpu-set"}, Group: GroupMPI, Value: "LIST", From: NoVar, Family: familyBind,
		Help: "bind every rank to these CPUs, as in 0-3,8; with --bind-to cpu-list:ordered each to the next",
		Set:  (*Line).setCPUList,
	},
	{
		Names: []string{"spawn-timeout"}, Group: GroupMPI, Value: "SECONDS", From: NoVar, Family: familySSHTimeout,
		Help: "the same as --ssh-timeout",
		Set: func(p *Line, a Arg) (err error) {
			p.Spec.Reach.Timeout, err = parseWithin(a.Value, minReachTimeout, maxReachTimeout)
			return err
		},
	},
	{
		Names: []string{"preload-binary"}, Group: GroupMPI, From: NoVar, block: true,
		Help: "send the program to each other host, as --copy does",
		Set:  func(p *Line, a Arg) error { p.mpi.preload = a.On; return nil },
	},
	{
		Names: []string{"preload-files"}, Group: GroupMPI, Value: "PATH,...", From: NoVar,
		Help: "the same as --copy of each",
		Set:  (*Line).setPreloadFiles,
	},
	{
		Names: []string{"display-comm"}, Group: GroupMPI, From: NoVar,
		Help: "have Open MPI 5 say in MPI_Init how ranks talk to each other",
		Set:  func(p *Line, a Arg) error { return p.exportIf(a, "OMPI_MCA_ompi_display_comm", "mpi_init") },
	},
	{
		Names: []string{"display-comm-finalize"}, Group: GroupMPI, From: NoVar,
		Help: "the same in MPI_Finalize",
		Set:  func(p *Line, a Arg) error { return p.exportIf(a, "OMPI_MCA_ompi_display_comm", "mpi_finalize") },
	},
	{
		Names: []string{"stream-buffering"}, Group: GroupMPI, Value: "0|1|2", Choices: []string{"0", "1", "2"}, From: NoVar,
		Help: "how ranks of Open MPI 5 buffer their output: not, by lines, or in full",
		Set: func(p *Line, a Arg) error {
			p.exportAlways(a, "OMPI_MCA_ompi_stream_buffering", a.Value)
			return OneOf(a.Value, "0", "1", "2")
		},
	},
	{
		Names: []string{"prefix"}, Group: GroupMPI, Value: "DIR", Dirs: true, From: NoVar, block: true,
		Help: "where the program's libraries are installed: ranks have DIR/bin at the head of PATH, and DIR/lib of " +
			"LD_LIBRARY_PATH",
		Set: (*Line).setPrefix,
	},
	{
		Names: []string{"path"}, Group: GroupMPI, Value: "DIR:...", From: NoVar, block: true,
		Help: "where to look for the program before PATH",
		Set:  func(p *Line, a Arg) error { return text(&p.app.Path, a) },
	},
	{
		Names: []string{"gpath"}, Group: GroupMPI, Value: "DIR:...", From: NoVar,
		Help: "the same for all programs that have no --path",
		Set:  func(p *Line, a Arg) error { return text(&p.mpi.path, a) },
	},

	{
		Names: []string{"pmix-prefix", "app-pmix-prefix"}, Value: "DIR", Group: GroupAccepted, From: NoVar, block: true,
		Set: nothing, Help: "gorun speaks PMIx itself, without a library",
	},
	{
		Names: []string{"noprefix", "no-app-prefix"}, Group: GroupAccepted, From: NoVar, block: true, Set: nothing,
		Help: "nothing is taken from where a launcher is installed",
	},
	{
		Names: []string{"launch-agent"}, Value: "PATH", Group: GroupAccepted, From: NoVar, Set: nothing,
		Help: "gorun brings its own agents along; --agent PATH is for a gorun that is there",
	},
	{
		Names: []string{"personality"}, Value: "NAME", Group: GroupAccepted, From: NoVar, Set: nothing,
		Help: "ranks of every MPI are served at the same time",
	},
	{
		Names: []string{"max-vm-size"}, Value: "N", Group: GroupAccepted, From: NoVar, Set: nothing,
		Help: "agents are started where ranks are",
	},
	{
		Names: []string{
			"novm", "hetero-nodes", "fwd-mpirun-port", "use-regexp", "do-not-resolve",
			"enable-instant-on-support", "set-sid",
		}, Group: GroupAccepted, From: NoVar, Set: nothing,
		Help: "that is about Open MPI's daemons, and there are none",
	},
	{
		Names: []string{"debug-devel", "debug-daemons", "debug-daemons-file", "leave-session-attached", "d"},
		Group: GroupAccepted, From: NoVar, Set: nothing,
		Help: "what agents have to say always comes here; -v has more of it",
	},
	{
		Names: []string{"no-aggregate-help", "parseable", "parsable", "no-ready-msg"}, Group: GroupAccepted, From: NoVar,
		Set: nothing, Help: "there is no such text",
	},
	{
		Names: []string{"show-progress"}, Group: GroupAccepted, From: NoVar, Set: nothing,
		Help: "a start that takes long is shown on a terminal by itself",
	},
	{
		Names: []string{"report-state-on-timeout"}, Group: GroupAccepted, From: NoVar, Set: nothing,
		Help: "how each rank ended is always said; --report FILE has it as data",
	},
	{
		Names: []string{"disable-recovery"}, Group: GroupAccepted, From: NoVar, Set: nothing,
		Help: "the failure of a rank ends the job unless --on-failure continue",
	},
	{
		Names: []string{"tmpdir"}, Value: "DIR", Group: GroupAccepted, From: NoVar, Set: nothing,
		Help: "gorun has no session directory; its few private files are in TMPDIR",
	},

	{
		Names: []string{"report-child-jobs-separately"}, Group: GroupRefused, From: NoVar,
		Help: "ranks that were spawned belong to the job; use --report FILE, which has the exit code of each",
	},
	{
		Names: []string{"runtime-options", "rtos"}, Value: "LIST", Group: GroupRefused, From: NoVar,
		Help: "each has an option of its own: --timeout, --on-failure continue, --max-restarts, --dry-run, --export-all",
	},
	{
		Names: []string{"continuous"}, Group: GroupRefused, From: NoVar,
		Help: "use --max-restarts for a job that starts again, or --on-failure continue for one that goes on",
	},
	{
		Names: []string{"with-ft"}, Value: "KIND", Group: GroupRefused, From: NoVar,
		Help: "ranks that outlive others need MPI's fault tolerance, which gorun does not serve; --on-failure continue " +
			"lets the others go on",
	},
	{
		Names: []string{"initial-errhandler"}, Value: "NAME", Group: GroupRefused, From: NoVar,
		Help: "gorun does not pass it on: have the program call MPI_Comm_set_errhandler",
	},
	{
		Names: []string{"memory-alloc-kinds"}, Value: "LIST", Group: GroupRefused, From: NoVar,
		Help: "gorun does not pass it on: have the program ask for them by the info of MPI_Session_init",
	},
	{
		Names: []string{"gpu-support"}, Value: "BOOL", Group: GroupRefused, From: NoVar,
		Help: "use --mca accelerator null to have Open MPI do without GPUs; with them is what it does by itself",
	},
	{
		Names: []string{"pset"}, Value: "NAME", Group: GroupRefused, From: NoVar,
		Help: "there are mpi://WORLD and mpi://SELF alone; leave it out",
	},
	{
		Names: []string{"add-host"}, Value: "LIST", Group: GroupRefused, From: NoVar,
		Help: "there is no machine that outlives a job, to which hosts could be added; use -H LIST",
	},
	{
		Names: []string{"add-hostfile"}, Value: "FILE", Group: GroupRefused, From: NoVar,
		Help: "there is no machine that outlives a job, to which hosts could be added; use --hostfile FILE",
	},
	{
		Names: []string{"hnp", "ompi-server", "dvm-uri", "nameserver"}, Value: "URI", Group: GroupRefused, From: NoVar,
		Help: "no server of gorun's outlives its job; ranks of one job publish and look up names without it: leave it out",
	},
	{
		Names: []string{"dvm", "singleton", "system-server"}, Group: GroupRefused, From: NoVar,
		Help: "no daemon of gorun's outlives its job, so that none has to be started before: leave it out",
	},
	{
		Names: []string{"keepalive", "report-events"}, Value: "WHERE", Group: GroupRefused, From: NoVar,
		Help: "gorun has no tools that connect to it; --report FILE says how the job ended",
	},
	{
		Names: []string{"stop-on-exec", "stop-in-init", "stop-in-app"}, Group: GroupRefused, From: NoVar,
		Help: "gorun serves no parallel debugger; put one before the program, as in gorun -n 2 xterm -e gdb ./prog",
	},
	{
		Names: []string{"debugger", "xterm"}, Value: "WHAT", Group: GroupRefused, From: NoVar,
		Help: "put such a program before yours, as in gorun -n 2 xterm -hold -e ./prog",
	},
	{
		Names: []string{"tv", "gdb", "idb"}, Group: GroupRefused, From: NoVar,
		Help: "put the debugger before the program, as in gorun -n 2 xterm -e gdb ./prog",
	},
	{
		Names: []string{"index-argv-by-rank"}, Group: GroupRefused, From: NoVar,
		Help: "programs keep their names; RANK and the lines' labels tell ranks apart",
	},
	{
		Names: []string{"set-cwd-to-session-dir"}, Group: GroupRefused, From: NoVar,
		Help: "gorun has no session directory; use --chdir DIR",
	},
	{
		Names: []string{"cartofile", "cf"}, Value: "FILE", Group: GroupRefused, From: NoVar,
		Help: "gorun reads from the kernel what the machine is like; gorun topo shows it",
	},
	{Names: []string{"xml"}, Group: GroupRefused, From: NoVar, Help: noXML},
	{Names: []string{"xml-file"}, Value: "FILE", Group: GroupRefused, From: NoVar, Help: noXML},
	{
		Names: []string{"arch", "soft", "file"}, Value: "WHAT", Group: GroupRefused, From: NoVar,
		Help: "that is in MPI's standard, and no launcher has it; use -n and -H",
	},
}
