package dialect

// outputTable holds what options of mpirun and mpiexec say about the ranks' output, and about what is shown of the
// plan.
var outputTable = []Option{
	{
		Names: []string{"l", "prepend-rank"}, Group: GroupOutput, from: varNone, family: familyLabel,
		Help: "the same as --label always; called mpiexec [rank] before each line, on a terminal as well",
		set:  (*parser).setPrependRank,
	},
	{
		Names: []string{"tag-output"}, Group: GroupOutput, family: familyLabel,
		Help: "label lines as Open MPI does: [1,rank]<stdout>:",
		set:  func(p *parser, a arg) error { return p.setLabel(a, tagLabel) },
	},
	{
		Names: []string{"prepend-pattern"}, Group: GroupMPI, Value: "PATTERN", from: varNone, family: familyLabel,
		Help: "what lines begin with: %r is the rank, %h the host, %p the node's number, %g which of MPI's worlds, %s the " +
			"stream, %t the time, %% a percent sign",
		set: (*parser).setPrependPattern,
	},
	{
		Names: []string{"timestamp-output"}, Group: GroupMPI, from: varNone, family: familyLabel,
		Help: "lines begin with the time, as Open MPI 4 writes it, before their tag",
		set:  func(p *parser, a arg) error { return keep(&p.print.stamp, a) },
	},
	{
		Names: []string{"prepend-timestamp"}, Group: GroupMPI, from: varNone, family: familyLabel,
		Help: "lines begin with the time and a blank, before their label",
		set:  func(p *parser, a arg) error { return keep(&p.print.timestamp, a) },
	},
	{
		Names: []string{"output"}, Group: GroupMPI, Value: "WORD,...", from: varNone, family: familyLabel,
		Help: "as Open MPI 5: tag, rank, timestamp and xml are labels in its form; merge is --merge-stderr-to-stdout; " +
			"dir=DIR writes DIR/1/rank.N/stdout and stderr, file=NAME writes NAME.1.N.out and .err, with :nocopy behind it to " +
			"show nothing; called mpirun nothing is shown but with :copy",
		set: (*parser).setOutput,
	},
	{
		Names: []string{"output-directory"}, Group: GroupMPI, Value: "DIR[:copy]", dirs: true,
		from: varNone, family: familyFiles,
		Help: "the same as --output dir=DIR",
		set:  func(p *parser, a arg) error { return p.setOutputDir(a, p.asOpenMPI5(a.value)) },
	},
	{
		Names: []string{"xml"}, Group: GroupMPI, from: varNone, family: familyLabel,
		Help: "each line is an element of XML, as Open MPI writes it, those of standard error also on standard output",
		set:  func(p *parser, a arg) error { return keep(&p.print.xml, a) },
	},
	{
		Names: []string{"merge-stderr-to-stdout"}, Group: GroupMPI, from: varNone,
		Help: "what ranks write to standard error is shown on standard output; labels and files still tell both apart",
		set:  func(p *parser, a arg) error { p.inv.Spec.Output.Merge = a.on; return nil },
	},
	{
		Names: []string{"output-filename"}, Group: GroupMPI, Value: "DIR[:nocopy]", dirs: true, from: varNone,
		family: familyFiles,
		Help:   "write both streams to DIR/1/rank.N/stdout and stderr, too; with :nocopy to these files alone",
		set:    func(p *parser, a arg) error { return p.setOutputDir(a, a.value) },
	},
	{
		Names: []string{"outfile-pattern", "outfile"}, Group: GroupMPI, Value: "PATTERN", from: varNone, family: familyFiles,
		Help: "write standard output to files of that name alone; places as in --prepend-pattern, and %R is the rank with " +
			"leading zeros",
		set: func(p *parser, a arg) error { return p.setFilePattern(a, &p.inv.Spec.Output.StdoutFile) },
	},
	{
		Names: []string{"errfile-pattern", "errfile"}, Group: GroupMPI, Value: "PATTERN", from: varNone, family: familyFiles,
		Help: "the same for standard error",
		set:  func(p *parser, a arg) error { return p.setFilePattern(a, &p.inv.Spec.Output.StderrFile) },
	},
	{
		Names: []string{"display-map", "display-devel-map", "display-diffable-map"}, Group: GroupMPI, from: varNone,
		Help: "say on standard error which rank runs where: a table of ranks, hosts, GPUs and CPUs",
		set:  func(p *parser, a arg) error { p.inv.Display.Map = a.on; return nil },
	},
	{
		Names: []string{"display-allocation", "display-devel-allocation"}, Group: GroupMPI, from: varNone,
		Help: "say on standard error which hosts the job has, with their slots and ranks",
		set:  func(p *parser, a arg) error { p.inv.Display.Hosts = a.on; return nil },
	},
	{
		Names: []string{"display-topo"}, Group: GroupMPI, from: varNone,
		Help: "draw on standard error what each node is like, as gorun topo does",
		set:  func(p *parser, a arg) error { p.inv.Spec.Place.Machine = a.on; return nil },
	},
	{
		Names: []string{"display"}, Group: GroupMPI, Value: "WHAT,...",
		Choices: []string{"map", "allocation", "bindings", "topo"}, from: varNone,
		Help: "the same as --display-map, --display-allocation, --report-bindings, --display-topo",
		set:  (*parser).setDisplay,
	},
	{
		Names: []string{"print-rank-map"}, Group: GroupMPI, from: varNone,
		Help: "say on standard error which ranks each host has, as Intel's mpiexec does: (host:0,1)",
		set:  func(p *parser, a arg) error { p.inv.Display.RankMap = a.on; return nil },
	},
	{
		Names: []string{"print-all-exitcodes"}, Group: GroupMPI, from: varNone,
		Help: "print each rank's wait status by host at the end, as Hydra does: 256 is exit code 1, 9 SIGKILL",
		set:  func(p *parser, a arg) error { p.inv.Display.ExitCodes = a.on; return nil },
	},
	{
		Names: []string{"report-pid"}, Group: GroupMPI, Value: "-|+|FILE", from: varNone,
		Help: "write the launcher's process id to standard output (-), standard error (+) or a file",
		set:  func(p *parser, a arg) error { return text(&p.inv.Display.PID, a) },
	},
	{
		Names: []string{"report-uri"}, Group: GroupMPI, Value: "-|+|FILE", from: varNone,
		Help: "write there JOB.0;tcp://HOST:PORT, where gorun's own store of the job listens",
		set:  func(p *parser, a arg) error { return text(&p.inv.Display.URI, a) },
	},
	{
		Names: []string{"output-proctable"}, Group: GroupMPI, optional: true, from: varNone,
		Help: "write each rank's host, program and process id when all run: to standard output, or =+ or =FILE",
		set: func(p *parser, a arg) error {
			if p.inv.Display.Processes = a.value; a.value == "true" {
				p.inv.Display.Processes = "-"
			}
			return nil
		},
	},
}
