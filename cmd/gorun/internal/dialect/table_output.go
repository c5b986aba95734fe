package dialect

import "slices"

// outputTable holds what options of mpirun and mpiexec say about the ranks' output, and about what is shown of the
// plan.
func outputTable(p *Line) []Option {
	return slices.Concat(p.labelOptions(), p.fileOptions(), p.displayOptions())
}

// labelOptions say what lines begin with.
func (p *Line) labelOptions() []Option {
	return []Option{
		{
			Names: []string{"l", "prepend-rank"}, Group: GroupOutput, From: NoVar, Family: familyLabel,
			Help: "the same as --label always; called mpiexec [rank] before each line, on a terminal as well",
			Set:  p.setPrependRank,
		},
		{
			Names: []string{"tag-output"}, Group: GroupOutput, Family: familyLabel, Set: p.setTag,
			Help: "label lines as Open MPI does: [1,rank]<stdout>:",
		},
		{
			Names: []string{"prepend-pattern"}, Group: GroupMPI, Value: "PATTERN", Family: familyLabel,
			Help: "what lines begin with: %r is the rank, %h the host, %p the node's number, %g which of MPI's worlds, %s the " +
				"stream, %t the time, %% a percent sign",
			Set: p.setPrependPattern,
		},
		{
			Names: []string{"timestamp-output"}, Group: GroupMPI, Family: familyLabel, Set: switchFrom(&p.output.stampFrom),
			Help: "lines begin with the time, as Open MPI 4 writes it, before their tag",
		},
		{
			Names: []string{"prepend-timestamp"}, Group: GroupMPI, Family: familyLabel, Set: switchFrom(&p.output.timestampFrom),
			Help: "lines begin with the time and a blank, before their label",
		},
		{
			Names: []string{"output"}, Group: GroupMPI, Value: "WORD,...", Family: familyLabel, Set: p.setOutput,
			Help: "as Open MPI 5: tag, rank and timestamp are labels in its form; merge is --merge-stderr-to-stdout; " +
				"dir=DIR writes DIR/1/rank.N/stdout and stderr, file=NAME writes NAME.1.N.out and .err, with :nocopy behind it " +
				"to show nothing; called mpirun nothing is shown but with :copy",
		},
	}
}

// fileOptions say to which files streams go.
func (p *Line) fileOptions() []Option {
	out := &p.Spec.Output
	return inGroup(GroupMPI, []Option{
		{
			Names: []string{"output-directory"}, Value: "DIR[:copy]", Dirs: true, Family: familyFiles,
			Help: "the same as --output dir=DIR",
			Set:  func(a Arg) error { return p.setOutputDir(a, p.asOpenMPI5(a.Value)) },
		},
		{
			Names: []string{"merge-stderr-to-stdout"}, Set: Switch(&out.Merge),
			Help: "what ranks write to standard error is shown on standard output; labels and files still tell both apart",
		},
		{
			Names: []string{"output-filename"}, Value: "DIR[:nocopy]", Dirs: true, Family: familyFiles,
			Help: "write both streams to DIR/1/rank.N/stdout and stderr, too; with :nocopy to these files alone",
			Set:  func(a Arg) error { return p.setOutputDir(a, a.Value) },
		},
		{
			Names: []string{"outfile-pattern", "outfile"}, Value: "PATTERN", Family: familyFiles,
			Help: "write standard output to files of that name alone; places as in --prepend-pattern, and %R is the rank " +
				"with leading zeros",
			Set: p.setFilePattern(&out.StdoutFile),
		},
		{
			Names: []string{"errfile-pattern", "errfile"}, Value: "PATTERN", Family: familyFiles,
			Help: "the same for standard error", Set: p.setFilePattern(&out.StderrFile),
		},
	})
}

// displayOptions have the plan, or what tools ask for, shown.
func (p *Line) displayOptions() []Option {
	show := &p.Display
	return inGroup(GroupMPI, []Option{
		{
			Names: []string{"display-map", "display-devel-map", "display-diffable-map"},
			Help:  "say on standard error which rank runs where: a table of ranks, hosts, GPUs and CPUs",
			Set:   Switch(&show.Map),
		},
		{
			Names: []string{"display-allocation", "display-devel-allocation"}, Set: Switch(&show.Hosts),
			Help: "say on standard error which hosts the job has, with their slots and ranks",
		},
		{
			Names: []string{"display-topo"}, Set: Switch(&p.Spec.Place.Machine),
			Help: "draw on standard error what each node is like, as gorun topo does",
		},
		{
			Names: []string{"display"}, Value: "WHAT,...",
			Choices: []string{"map", "allocation", "bindings", "topo"}, Set: p.setDisplay,
			Help: "the same as --display-map, --display-allocation, --report-bindings, --display-topo",
		},
		{
			Names: []string{"print-rank-map"}, Set: Switch(&show.RankMap),
			Help: "say on standard error which ranks each host has, as Intel's mpiexec does: (host:0,1)",
		},
		{
			Names: []string{"print-all-exitcodes"}, Set: Switch(&show.ExitCodes),
			Help: "print each rank's wait status by host at the end, as Hydra does: 256 is exit code 1, 9 SIGKILL",
		},
		{
			Names: []string{"report-pid"}, Value: "-|+|FILE", Set: Text(&show.PID),
			Help: "write the launcher's process id to standard output (-), standard error (+) or a file",
		},
		{
			Names: []string{"report-uri"}, Value: "-|+|FILE", Set: Text(&show.URI),
			Help: "write there JOB.0;tcp://HOST:PORT, where gorun's own store of the job listens",
		},
		{
			Names: []string{"output-proctable"}, Optional: true, Set: p.setProcessTable,
			Help: "write each rank's host, program and process id when all run: to standard output, or =+ or =FILE",
		},
	})
}

func (p *Line) setProcessTable(a Arg) error {
	if p.Display.Processes = a.Value; a.Value == "true" {
		p.Display.Processes = "-"
	}
	return nil
}
