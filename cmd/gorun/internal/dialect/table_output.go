package dialect

import "slices"

// outputTable holds options of mpirun and mpiexec on ranks' output, and on what to show of the plan.
func outputTable(p *Line) []Option {
	return slices.Concat(p.labelOptions(), inGroup(GroupMPI, p.fileOptions()), inGroup(GroupMPI, p.displayOptions()))
}

func (p *Line) labelOptions() []Option {
	return []Option{
		{
			Names: "l prepend-rank", Group: GroupOutput, From: NoVar, Family: familyLabel,
			Help: "act as --label always", Set: p.setPrependRank,
		},
		{
			Names: "tag-output", Group: GroupOutput, Family: familyLabel, Set: p.setTag,
			Help: "label lines as Open MPI does: [1,rank]<stdout>:",
		},
		{
			Names: "prepend-pattern", Group: GroupMPI, Value: "PATTERN", Family: familyLabel,
			Help: "label lines by %r (rank), %h (host), %p (node), %s (stream), %t (time)", Set: p.setPrependPattern,
		},
		{
			Names: "timestamp-output", Group: GroupMPI, Family: familyLabel, Set: switchFrom(&p.output.stampFrom),
			Help: "put the time before the tag of lines, as Open MPI 4 does",
		},
		{
			Names: "prepend-timestamp", Group: GroupMPI, Family: familyLabel,
			Help: "put the time before the label of lines", Set: switchFrom(&p.output.timestampFrom),
		},
		{
			Names: "output", Group: GroupMPI, Value: "WORD,...", Family: familyLabel, Set: p.setOutput,
			Help: "set Open MPI 5's tag, rank, timestamp, merge, dir=DIR or file=NAME",
		},
	}
}

func (p *Line) fileOptions() []Option {
	out := &p.Spec.Output
	return []Option{
		{
			Names: "output-directory", Value: "DIR[:copy]", Dirs: true, Family: familyFiles,
			Help: "act as --output dir=DIR", Set: func(a Arg) error { return p.setOutputDir(a, p.asOpenMPI5(a.Value)) },
		},
		{
			Names: "merge-stderr-to-stdout", Set: Switch(&out.Merge),
			Help: "show standard error on standard output; labels and files differ",
		},
		{
			Names: "output-filename", Value: "DIR[:nocopy]", Dirs: true, Family: familyFiles,
			Help: "write streams to DIR/1/rank.N/stdout and stderr, too",
			Set:  func(a Arg) error { return p.setOutputDir(a, a.Value) },
		},
		{
			Names: "outfile-pattern outfile", Value: "PATTERN", Family: familyFiles,
			Help: "write standard output to files only; see --prepend-pattern", Set: p.setFilePattern(&out.StdoutFile),
		},
		{
			Names: "errfile-pattern errfile", Value: "PATTERN", Family: familyFiles,
			Help: "write standard error to files only; see --prepend-pattern", Set: p.setFilePattern(&out.StderrFile),
		},
	}
}

func (p *Line) displayOptions() []Option {
	show := &p.Display
	return []Option{
		{
			Names: "display-map display-devel-map display-diffable-map", Set: Switch(&show.Map),
			Help: "print where each rank runs to standard error",
		},
		{
			Names: "display-allocation display-devel-allocation", Set: Switch(&show.Hosts),
			Help: "print the hosts with their slots and ranks to standard error",
		},
		{
			Names: "display-topo", Set: Switch(&p.Spec.Place.Machine),
			Help: "draw each node to standard error, as gorun topo does",
		},
		{
			Names: "display", Value: "WHAT,...", Choices: "map|allocation|bindings|topo",
			Help: "print map, allocation, bindings or topo to standard error", Set: p.setDisplay,
		},
		{
			Names: "print-rank-map", Set: Switch(&show.RankMap),
			Help: "print the ranks of each host as Intel MPI does: (host:0,1)",
		},
		{
			Names: "print-all-exitcodes", Set: Switch(&show.ExitCodes),
			Help: "print each rank's wait status at the end, as Hydra does",
		},
		{
			Names: "report-pid", Value: "-|+|FILE", Set: Text(&show.PID),
			Help: "write the launcher's process id to stdout (-), stderr (+) or FILE",
		},
		{
			Names: "report-uri", Value: "-|+|FILE", Set: Text(&show.URI),
			Help: "write where the store listens: JOB.0;tcp://HOST:PORT",
		},
		{
			Names: "output-proctable", Optional: true, Set: p.setProcessTable,
			Help: "write each rank's host, program and process id; =+ or =FILE elsewhere",
		},
	}
}

func (p *Line) setProcessTable(a Arg) error {
	if p.Display.Processes = a.Value; a.Value == "true" {
		p.Display.Processes = "-"
	}
	return nil
}
