package dialect

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gorun/launcher/job"
)

// setPreemptSignal takes one signal that ends no job by itself.
func (p *Line) setPreemptSignal(a Arg) error {
	names, err := parseSignals(a.Value)
	switch {
	case err != nil:
		return err
	case len(names) > 1:
		return errors.New("give one signal")
	case job.Ends(unix.SignalNum(names[0])):
		return fmt.Errorf("%s ends the job: ranks get it anyway, and have --grace", names[0])
	}
	p.Spec.PreemptSignal = names[0]
	return nil
}

// parseCodes parses exit codes of ranks.
func parseCodes(value string) (codes []int, err error) {
	for _, entry := range strings.Split(value, ",") {
		code, err := strconv.ParseUint(strings.TrimSpace(entry), 10, 8)
		if err != nil || code == 0 {
			return nil, fmt.Errorf("%q is not an exit code from 1 to 255", entry)
		}
		codes = append(codes, int(code))
	}
	return codes, nil
}

// endTable holds gorun's own options on the end of ranks and jobs.
func endTable(p *Line) []Option {
	spec := &p.Spec
	return inGroup(GroupEnd, []Option{
		{
			Names: "on-failure", Value: "stop|continue", Family: familyFailure,
			Help: "stop or continue the other ranks if a rank fails (stop)",
			Set:  Second(&spec.Policy.Continue),
		},
		{
			Names: "min-success", Value: "N", Set: Parsed(&spec.Policy.MinSuccess, AtLeast(1)),
			Help: "exit with 0 if N ranks did, with --on-failure continue",
		},
		{
			Names: "early-exit", Value: "allow|warn|fail",
			Help: "react if a rank exits with 0 and others run 10 s longer (allow)",
			Set:  Index(&spec.Policy.EarlyExit),
		},
		{
			Names: "hang-timeout", Value: "D", Set: Parsed(&spec.HangTimeout, ParseDuration),
			Help: "stop a job that prints nothing and does nothing for D (never)",
		},
		{
			Names: "on-hang", Value: "stop|report|stop-busy",
			Set:  Index(&spec.OnHang),
			Help: "stop after --hang-timeout, only report, or stop busy ranks, too (stop)",
		},
		{
			Names: "cgroup", Value: "auto|off", Set: Second(&spec.NoCgroup),
			Help: "run the job in a cgroup of its own where possible (auto)",
		},
		{
			Names: "restart-delay", Value: "D", Set: Parsed(&spec.Restarts.Delay, parseNonzeroTime),
			Help: "wait D before a restart, twice as long after no progress (1)",
		},
		{
			Names: "restart-window", Value: "D", Set: Parsed(&spec.Restarts.Window, ParseDuration),
			Help: "forget failures older than D (never)",
		},
		{
			Names: "max-node-losses", Value: "N", Set: Parsed(&spec.Restarts.NodeLosses, AtLeast(1)),
			Help: "restart after up to N lost hosts (all but --min-nodes)",
		},
		{
			Names: "chaos", Value: "FAULT@D,...", Set: Parsed(&spec.Chaos, job.ParseChaos),
			Help: "inject faults: kill-agent:n2@30s, kill-rank@60s±5s, cut-link@~90s",
		},
		{
			Names: "chaos-seed", Value: "N", Set: Parsed(&spec.ChaosSeed, AtLeast(1)),
			Help: "repeat the random times and targets of --chaos (new ones)",
		},
		{
			Names: "warm-imports", Value: "LIST", Set: Parsed(&spec.WarmImports, parseModules),
			Help: "have Python modules imported before a restart: torch,torch._dynamo",
		},
		{
			Names: "max-no-progress-restarts", Value: "N", Set: Parsed(&spec.Restarts.Stalled, AtLeast(1)),
			Help: "give up after N restarts in a row without progress (any)",
		},
		{
			Names: "progress-file", Value: "FILE", Set: Text(&spec.Restarts.ProgressFile),
			Help: "count a change of FILE as progress (a run of --restart-window)",
		},
		{
			Names: "preempt-signal", Value: "SIG", Set: p.setPreemptSignal,
			Help: "at SIG let ranks save and exit in the time left (none)",
		},
		{
			Names: "requeue-on", Value: "CODE,...", Set: Parsed(&spec.Restarts.OnCodes, parseCodes),
			Help: "requeue or restart a job that ends with CODE, a checkpoint (none)",
		},
	})
}
