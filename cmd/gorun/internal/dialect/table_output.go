package dialect

// outputTable holds what options of mpirun and mpiexec say about the ranks' output, and about what is shown of the
// plan.
var outputTable = []Option{
	{
		Names: []string{"l", "prepend-rank"}, Group: GroupOutput, From: NoVar, Family: familyLabel,
		Help: "the same as --label always; called mpiexec [rank] before each line, on a terminal as well",
		Set:  (*Line).setPrependRank,
	},
	{
		Names: []string{"tag-output"}, Group: GroupOutput, Family: familyLabel,
		Help: "label lines as Open MPI does: [1,rank]<stdout>:",
		Set:  func(p *Line, a Arg) error { return p.setLabel(a, tagLabel) },
	},
	{
		Names: []string{"prepend-pattern"}, Group: GroupMPI, Value: "PATTERN", From: NoVar, Family: familyLabel,
		Help: "what lines begin with: %r is the rank, %h the host, %p the node's number, %g which of MPI's worlds, %s the " +
			"stream, %t the time, %% a percent sign",
		Set: (*Line).setPrependPattern,
	},
	{
		Names: []string{"timestamp-output"}, Group: GroupMPI, From: NoVar, Family: familyLabel,
		Help: "lines begin with the time, as Open MPI 4 writes it, before their tag",
		Set:  func(p *Line, a Arg) error { return keep(&p.print.stamp, a) },
	},
	{
		Names: []string{"prepend-timestamp"}, Group: GroupMPI, From: NoVar, Family: familyLabel,
		Help: "lines begin with the time and a blank, before their label",
		Set:  func(p *Line, a Arg) error { return keep(&p.print.timestamp, a) },
	},
	{
		Names: []string{"output"}, Group: GroupMPI, Value: "WORD,...", From: NoVar, Family: familyLabel,
		Help: "as Open MPI 5: tag, rank and timestamp are labels in its form; merge is --merge-stderr-to-stdout; " +
			"dir=DIR writes DIR/1/rank.N/stdout and stderr, file=NAME writes NAME.1.N.out and .err, with :nocopy behind it to " +
			"show nothing; called mpirun nothing is shown but with :copy",
		Set: (*Line).setOutput,
	},
	{
		Names: []string{"output-directory"}, Group: GroupMPI, Value: "DIR[:copy]", Dirs: true,
		From: NoVar, Family: familyFiles,
		Help: "the same as --output dir=DIR",
		Set:  func(p *Line, a Arg) error { return p.setOutputDir(a, p.asOpenMPI5(a.Value)) },
	},
	{
		Names: []string{"merge-stderr-to-stdout"}, Group: GroupMPI, From: NoVar,
		Help: "what ranks write to standard error is shown on standard output; labels and files still tell both apart",
		Set:  func(p *Line, a Arg) error { p.Spec.Output.Merge = a.On; return nil },
	},
	{
		Names: []string{"output-filename"}, Group: GroupMPI, Value: "DIR[:nocopy]", Dirs: true, From: NoVar,
		Family: familyFiles,
		Help:   "write both streams to DIR/1/rank.N/stdout and stderr, too; with :nocopy to these files alone",
		Set:    func(p *Line, a Arg) error { return p.setOutputDir(a, a.Value) },
	},
	{
		Names: []string{"outfile-pattern", "outfile"}, Group: GroupMPI, Value: "PATTERN", From: NoVar, Family: familyFiles,
		Help: "write standard output to files of that name alone; places as in --prepend-pattern, and %R is the rank with " +
			"leading zeros",
		Set: func(p *Line, a Arg) error { return p.setFilePattern(a, &p.Spec.Output.StdoutFile) },
	},
	{
		Names: []string{"errfile-pattern", "errfile"}, Group: GroupMPI, Value: "PATTERN", From: NoVar, Family: familyFiles,
		Help: "the same for standard error",
		Set:  func(p *Line, a Arg) error { return p.setFilePattern(a, &p.Spec.Output.StderrFile) },
	},
	{
		Names: []string{"display-map", "display-devel-map", "display-diffable-map"}, Group: GroupMPI, From: NoVar,
		Help: "say on standard error which rank runs where: a table of ranks, hosts, GPUs and CPUs",
		Set:  func(p *Line, a Arg) error { p.Display.Map = a.On; return nil },
	},
	{
		Names: []string{"display-allocation", "display-devel-allocation"}, Group: GroupMPI, From: NoVar,
		Help: "say on standard error which hosts the job has, with their slots and ranks",
		Set:  func(p *Line, a Arg) error { p.Display.Hosts = a.On; return nil },
	},
	{
		Names: []string{"display-topo"}, Group: GroupMPI, From: NoVar,
		Help: "draw on standard error what each node is like, as gorun topo does",
		Set:  func(p *Line, a Arg) error { p.Spec.Place.Machine = a.On; return nil },
	},
	{
		Names: []string{"display"}, Group: GroupMPI, Value: "WHAT,...",
		Choices: []string{"map", "allocation", "bindings", "topo"}, From: NoVar,
		Help: "the same as --display-map, --display-allocation, --report-bindings, --display-topo",
		Set:  (*Line).setDisplay,
	},
	{
		Names: []string{"print-rank-map"}, Group: GroupMPI, From: NoVar,
		Help: "say on standard error which ranks each host has, as Intel's mpiexec does: (host:0,1)",
		Set:  func(p *Line, a Arg) error { p.Display.RankMap = a.On; return nil },
	},
	{
		Names: []string{"print-all-exitcodes"}, Group: GroupMPI, From: NoVar,
		Help: "print each rank's wait status by host at the end, as Hydra does: 256 is exit code 1, 9 SIGKILL",
		Set:  func(p *Line, a Arg) error { p.Display.ExitCodes = a.On; return nil },
	},
	{
		Names: []string{"report-pid"}, Group: GroupMPI, Value: "-|+|FILE", From: NoVar,
		Help: "write the launcher's process id to standard output (-), standard error (+) or a file",
		Set:  func(p *Line, a Arg) error { return text(&p.Display.PID, a) },
	},
	{
		Names: []string{"report-uri"}, Group: GroupMPI, Value: "-|+|FILE", From: NoVar,
		Help: "write there JOB.0;tcp://HOST:PORT, where gorun's own store of the job listens",
		Set:  func(p *Line, a Arg) error { return text(&p.Display.URI, a) },
	},
	{
		Names: []string{"output-proctable"}, Group: GroupMPI, Optional: true, From: NoVar,
		Help: "write each rank's host, program and process id when all run: to standard output, or =+ or =FILE",
		Set: func(p *Line, a Arg) error {
			if p.Display.Processes = a.Value; a.Value == "true" {
				p.Display.Processes = "-"
			}
			return nil
		},
	},
}
