package dialect

import (
	"fmt"
	"strconv"
	"time"

	"gorun/launcher/job"
)

// endTable is what gorun has of its own on the end of ranks and of jobs.
var endTable = []Option{
	{
		Names: []string{"on-failure"}, Group: GroupEnd, Value: "stop|continue", Choices: []string{"stop", "continue"},
		Family: familyFailure,
		Help: "what the failure of a rank means for the others: stop ends the job, with continue they go on and the job " +
			"ends with the first one's exit code (default: stop)",
		Set: func(p *Line, a Arg) error {
			p.Spec.Policy.Continue = a.Value == "continue"
			return OneOf(a.Value, "stop", "continue")
		},
	},
	{
		Names: []string{"min-success"}, Group: GroupEnd, Value: "N",
		Help: "with --on-failure continue: exit 0 if at least so many ranks did",
		Set: func(p *Line, a Arg) (err error) {
			p.Spec.Policy.MinSuccess, err = ParseAtLeast(a.Value, 1)
			return err
		},
	},
	{
		Names: []string{"early-exit"}, Group: GroupEnd, Value: "allow|warn|fail", Choices: []string{"allow", "warn", "fail"},
		Help: "when a rank has ended with exit code 0 and others still run 10 s later: nothing, a remark, or the end of " +
			"the job with exit code 1 (default: allow)",
		Set: (*Line).setEarlyExit,
	},
	{
		Names: []string{"hang-timeout"}, Group: GroupEnd, Value: "D",
		Help: "when for D no rank has printed anything and nothing has come further in the store: say what each rank is " +
			"doing (default: never)",
		Set: func(p *Line, a Arg) (err error) { p.Spec.HangTimeout, err = ParseDuration(a.Value); return err },
	},
	{
		Names: []string{"on-hang"}, Group: GroupEnd, Value: "stop|report", Choices: []string{"stop", "report"},
		Help: "and then: stop has Go and Python ranks print their stacks (SIGQUIT, faulthandler) and ends the job with " +
			"exit code 124, report only looks and lets it go on (default: stop)",
		Set: func(p *Line, a Arg) error {
			if a.Value == "report" {
				p.Spec.OnHang = job.HangReport
			}
			return OneOf(a.Value, "stop", "report")
		},
	},
	{
		Names: []string{"env-check"}, Group: GroupProgram, Value: "auto|off", Choices: []string{"auto", "off"},
		Help: "name variables of ranks that NCCL does not read: auto where they use it (auto)",
		Set: func(p *Line, a Arg) error {
			p.Spec.NoEnvCheck = a.Value == "off"
			return OneOf(a.Value, "auto", "off")
		},
	},
	{
		Names: []string{"cgroup"}, Group: GroupEnd, Value: "auto|off", Choices: []string{"auto", "off"},
		Help: "keep the job's processes together in a cgroup of their own: auto where one can be made and outside of " +
			"Slurm, or off (default: auto)",
		Set: func(p *Line, a Arg) error {
			p.Spec.NoCgroup = a.Value == "off"
			return OneOf(a.Value, "auto", "off")
		},
	},
	{
		Names: []string{"restart-delay"}, Group: GroupEnd, Value: "D",
		Help: "time before the first restart of --max-restarts; it doubles with each, up to a minute (default: 1)",
		Set: func(p *Line, a Arg) (err error) {
			p.Spec.Restarts.Delay, err = ParseDuration(a.Value)
			if err == nil && p.Spec.Restarts.Delay == 0 {
				p.Spec.Restarts.Delay = -1 * time.Nanosecond // how a Spec says that there is none
			}
			return err
		},
	},
	{
		Names: []string{"restart-window"}, Group: GroupEnd, Value: "D",
		Help: "an attempt that ran so long was healthy: restarts are counted anew after it (default: never)",
		Set: func(p *Line, a Arg) (err error) {
			p.Spec.Restarts.Window, err = ParseDuration(a.Value)
			return err
		},
	},
}

func (p *Line) setEarlyExit(a Arg) error {
	switch a.Value {
	case "allow":
		p.Spec.Policy.EarlyExit = job.EarlyAllowed
	case "warn":
		p.Spec.Policy.EarlyExit = job.EarlyWarn
	case "fail":
		p.Spec.Policy.EarlyExit = job.EarlyFail
	default:
		return OneOf(a.Value, "allow", "warn", "fail")
	}
	return nil
}

// ParseAtLeast reads a number that may not be too small.
func ParseAtLeast(value string, least int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least {
		return 0, fmt.Errorf("not a number from %d on", least)
	}
	return n, nil
}
