package dialect

// endTable is what gorun has of its own on the end of ranks and of jobs.
func endTable(p *Line) []Option {
	return []Option{
		{
			Names: []string{"on-failure"}, Group: GroupEnd, Value: "stop|continue", Family: familyFailure,
			Help: "what the failure of a rank means for the others: stop ends the job, with continue they go on and the job " +
				"ends with the first one's exit code (default: stop)",
			Set: Either(&p.Spec.Policy.Continue, "stop", "continue"),
		},
		{
			Names: []string{"min-success"}, Group: GroupEnd, Value: "N", Set: Parsed(&p.Spec.Policy.MinSuccess, AtLeast(1)),
			Help: "with --on-failure continue: exit 0 if at least so many ranks did",
		},
		{
			Names: []string{"early-exit"}, Group: GroupEnd, Value: "allow|warn|fail",
			Help: "when a rank has ended with exit code 0 and others still run 10 s later: nothing, a remark, or the end of " +
				"the job with exit code 1 (default: allow)",
			Set: named(&p.Spec.Policy.EarlyExit, "allow", "warn", "fail"),
		},
		{
			Names: []string{"hang-timeout"}, Group: GroupEnd, Value: "D", Set: Parsed(&p.Spec.HangTimeout, ParseDuration),
			Help: "when for D no rank has printed anything and nothing has come further in the store: say what each rank is " +
				"doing (default: never)",
		},
		{
			Names: []string{"on-hang"}, Group: GroupEnd, Value: "stop|report", Set: named(&p.Spec.OnHang, "stop", "report"),
			Help: "and then: stop has Go and Python ranks print their stacks (SIGQUIT, faulthandler) and ends the job with " +
				"exit code 124, report only looks and lets it go on (default: stop)",
		},
		{
			Names: []string{"env-check"}, Group: GroupProgram, Value: "auto|off", Set: Either(&p.Spec.NoEnvCheck, "auto", "off"),
			Help: "name variables of ranks that NCCL does not read: auto where they use it (auto)",
		},
		{
			Names: []string{"cgroup"}, Group: GroupEnd, Value: "auto|off", Set: Either(&p.Spec.NoCgroup, "auto", "off"),
			Help: "keep the job's processes together in a cgroup of their own: auto where one can be made and outside of " +
				"Slurm, or off (default: auto)",
		},
		{
			Names: []string{"restart-delay"}, Group: GroupEnd, Value: "D", Set: Parsed(&p.Spec.Restarts.Delay, parseNonzeroTime),
			Help: "time before the first restart of --max-restarts; it doubles with each, up to a minute (default: 1)",
		},
		{
			Names: []string{"restart-window"}, Group: GroupEnd, Value: "D",
			Help: "an attempt that ran so long was healthy: restarts are counted anew after it (default: never)",
			Set:  Parsed(&p.Spec.Restarts.Window, ParseDuration),
		},
	}
}
