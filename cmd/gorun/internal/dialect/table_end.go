package dialect

// endTable holds gorun's own options on the end of ranks and jobs.
func endTable(p *Line) []Option {
	spec := &p.Spec
	return inGroup(GroupEnd, []Option{
		{
			Names: []string{"on-failure"}, Value: "stop|continue", Family: familyFailure,
			Help: "stop or continue the other ranks if a rank fails (stop)",
			Set:  Either(&spec.Policy.Continue, "stop", "continue"),
		},
		{
			Names: []string{"min-success"}, Value: "N", Set: Parsed(&spec.Policy.MinSuccess, AtLeast(1)),
			Help: "exit with 0 if N ranks did, with --on-failure continue",
		},
		{
			Names: []string{"early-exit"}, Value: "allow|warn|fail",
			Help: "react if a rank exits with 0 and others run 10 s longer (allow)",
			Set:  named(&spec.Policy.EarlyExit, "allow", "warn", "fail"),
		},
		{
			Names: []string{"hang-timeout"}, Value: "D", Set: Parsed(&spec.HangTimeout, ParseDuration),
			Help: "report what ranks do after D without output or progress (never)",
		},
		{
			Names: []string{"on-hang"}, Value: "stop|report", Set: named(&spec.OnHang, "stop", "report"),
			Help: "stop the job after --hang-timeout, or only report (stop)",
		},
		{
			Names: []string{"cgroup"}, Value: "auto|off", Set: Either(&spec.NoCgroup, "auto", "off"),
			Help: "run the job in a cgroup of its own where possible (auto)",
		},
		{
			Names: []string{"restart-delay"}, Value: "D", Set: Parsed(&spec.Restarts.Delay, parseNonzeroTime),
			Help: "wait D before the first restart, and twice as long each time (1)",
		},
		{
			Names: []string{"restart-window"}, Value: "D", Set: Parsed(&spec.Restarts.Window, ParseDuration),
			Help: "count restarts anew after an attempt that ran for D (never)",
		},
		{
			Names: []string{"max-node-losses"}, Value: "N", Set: Parsed(&spec.Restarts.NodeLosses, AtLeast(1)),
			Help: "restart after up to N lost hosts (all but --min-nodes)",
		},
		{
			Names: []string{"warm-imports"}, Value: "LIST", Set: Parsed(&spec.WarmImports, parseModules),
			Help: "have Python modules imported before a restart: torch,numpy",
		},
	})
}
