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
		family: familyFailure,
		Help: "what the failure of a rank means for the others: stop ends the job, with continue they go on and the job " +
			"ends with the first one's exit code (default: stop)",
		set: func(p *parser, a arg) error {
			p.inv.Spec.Policy.Continue = a.value == "continue"
			return oneOf(a.value, "stop", "continue")
		},
	},
	{
		Names: []string{"min-success"}, Group: GroupEnd, Value: "N",
		Help: "with --on-failure continue: exit 0 if at least so many ranks did",
		set: func(p *parser, a arg) (err error) {
			p.inv.Spec.Policy.MinSuccess, err = parseAtLeast(a.value, 1)
			return err
		},
	},
	{
		Names: []string{"early-exit"}, Group: GroupEnd, Value: "allow|warn|fail", Choices: []string{"allow", "warn", "fail"},
		Help: "when a rank has ended with exit code 0 and others still run 10 s later: nothing, a remark, or the end of " +
			"the job with exit code 1 (default: allow)",
		set: (*parser).setEarlyExit,
	},
	{
		Names: []string{"hang-timeout"}, Group: GroupEnd, Value: "D",
		Help: "when for D no rank has printed anything and nothing has come further in the store: say what each rank is " +
			"doing (default: never)",
		set: func(p *parser, a arg) (err error) { p.inv.Spec.HangTimeout, err = parseDuration(a.value); return err },
	},
	{
		Names: []string{"on-hang"}, Group: GroupEnd, Value: "stop|report", Choices: []string{"stop", "report"},
		Help: "and then: stop has Go and Python ranks print their stacks (SIGQUIT, faulthandler) and ends the job with " +
			"exit code 124, report only looks and lets it go on (default: stop)",
		set: func(p *parser, a arg) error {
			if a.value == "report" {
				p.inv.Spec.OnHang = job.HangReport
			}
			return oneOf(a.value, "stop", "report")
		},
	},
	{
		Names: []string{"env-check"}, Group: GroupProgram, Value: "auto|off", Choices: []string{"auto", "off"},
		Help: "name variables of ranks that NCCL does not read: auto where they use it (auto)",
		set: func(p *parser, a arg) error {
			p.inv.Spec.NoEnvCheck = a.value == "off"
			return oneOf(a.value, "auto", "off")
		},
	},
	{
		Names: []string{"cgroup"}, Group: GroupEnd, Value: "auto|off", Choices: []string{"auto", "off"},
		Help: "keep the job's processes together in a cgroup of their own: auto where one can be made and outside of " +
			"Slurm, or off (default: auto)",
		set: func(p *parser, a arg) error {
			p.inv.Spec.NoCgroup = a.value == "off"
			return oneOf(a.value, "auto", "off")
		},
	},
	{
		Names: []string{"restart-delay"}, Group: GroupEnd, Value: "D",
		Help: "time before the first restart of --max-restarts; it doubles with each, up to a minute (default: 1)",
		set: func(p *parser, a arg) (err error) {
			p.inv.Spec.Restarts.Delay, err = parseDuration(a.value)
			if err == nil && p.inv.Spec.Restarts.Delay == 0 {
				p.inv.Spec.Restarts.Delay = -1 * time.Nanosecond // how a Spec says that there is none
			}
			return err
		},
	},
	{
		Names: []string{"restart-window"}, Group: GroupEnd, Value: "D",
		Help: "an attempt that ran so long was healthy: restarts are counted anew after it (default: never)",
		set: func(p *parser, a arg) (err error) {
			p.inv.Spec.Restarts.Window, err = parseDuration(a.value)
			return err
		},
	},
}

func (p *parser) setEarlyExit(a arg) error {
	switch a.value {
	case "allow":
		p.inv.Spec.Policy.EarlyExit = job.EarlyAllowed
	case "warn":
		p.inv.Spec.Policy.EarlyExit = job.EarlyWarn
	case "fail":
		p.inv.Spec.Policy.EarlyExit = job.EarlyFail
	default:
		return oneOf(a.value, "allow", "warn", "fail")
	}
	return nil
}

// parseAtLeast reads a number that may not be too small.
func parseAtLeast(value string, least int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least {
		return 0, fmt.Errorf("not a number from %d on", least)
	}
	return n, nil
}
