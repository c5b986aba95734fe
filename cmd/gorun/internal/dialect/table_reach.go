package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorun/launcher/job"
)

// reachTable holds what gorun's own dialect has on other hosts that it starts
// ranks on.
var reachTable = []Option{
	{
		Names: []string{"exclude"}, Group: GroupHosts, Value: "HOST,...",
		Help: "hosts of -H, of --hostfile or of the resource manager to leave out, ranges too; localhost is this one",
		set:  (*parser).setExclude,
	},
	{
		Names: []string{"oversubscribe"}, Group: GroupHosts, family: familyOversubscribe,
		Help: "allow more ranks than the hosts have slots",
		set:  func(p *parser, a arg) error { return p.setOversubscribe(a, true) },
	},
	{
		Names: []string{"ssh-config"}, Group: GroupReach, Value: "FILE",
		Help: "configuration of ssh to use in place of your own, as ssh -F",
		set: func(p *parser, a arg) error {
			p.reach.config = a.from
			return text(&p.inv.Spec.Reach.SSHConfig, a)
		},
	},
	{
		Names: []string{"ssh"}, Group: GroupReach, Value: "'CMD ...'", family: familySSH,
		Help: "program in place of gorun's own SSH; it gets host and command behind its arguments, or {host}, {user}, " +
			"{port} filled in",
		set: (*parser).setSSH,
	},
	{
		Names: []string{"ssh-accept-new"}, Group: GroupReach,
		Help: "add the keys of hosts that are not known yet to the known ones; changed keys are refused all the same",
		set: func(p *parser, a arg) error {
			if p.inv.Spec.Reach.AcceptNew = a.on; a.on {
				p.reach.acceptNew = a.from
			}
			return nil
		},
	},
	{
		Names: []string{"ssh-at-once"}, Group: GroupReach, Value: "N",
		Help: fmt.Sprintf("hosts that are being reached at the same time (default: %d)", job.DefaultAtOnce),
		set:  func(p *parser, a arg) (err error) { p.inv.Spec.Reach.AtOnce, err = parseRanks(a.value); return err },
	},
	{
		Names: []string{"ssh-timeout"}, Group: GroupReach, Value: "D", family: familySSHTimeout,
		Help: fmt.Sprintf("how long reaching one host may take, as a time (default: %.0f, and %.0f to connect)",
			job.DefaultReachTimeout.Seconds(), job.DefaultConnectTimeout.Seconds()),
		set: func(p *parser, a arg) (err error) {
			p.inv.Spec.Reach.Timeout, err = parseWithin(a.value, minReachTimeout, maxReachTimeout)
			return err
		},
	},
	{
		Names: []string{"agent"}, Group: GroupReach, Value: "PATH",
		Help: "gorun on the other hosts, to use in place of a copy of this one",
		set:  func(p *parser, a arg) error { return remotePath(&p.inv.Spec.Reach.Agent, a) },
	},
	{
		Names: []string{"copy"}, Group: GroupReach, Value: "PATH", from: varNone,
		Help: "file or directory to send to each other host before the start; may be repeated",
		set: func(p *parser, a arg) error {
			var path string
			err := text(&path, a)
			p.inv.Spec.Reach.Copy = append(p.inv.Spec.Reach.Copy, path)
			return err
		},
	},
	{
		Names: []string{"export-all", "genvall"}, Group: GroupReach, family: familyExport,
		Help: "give ranks on other hosts the whole environment, but what belongs to one host (default: the list in " +
			"docs/environment.md, and -x)",
		set: (*parser).setExportAll,
	},
}

// nodesTable holds what every dialect has on jobs of several nodes.
var nodesTable = []Option{
	engineOption,
	{
		Names: []string{"token-file"}, Group: GroupMeeting, Value: "FILE",
		Help: "file with the secret of nodes that join each other, the same on all of them (default: GORUN_TOKEN, else " +
			"what gorun token --save made)",
		set: func(p *parser, a arg) error { p.tokenFile = a; return text(new(string), a) },
	},
	{
		Names: []string{"insecure-join"}, Group: GroupMeeting,
		Help: "let nodes join without a token: anybody who reaches the port can",
		set: func(p *parser, a arg) error {
			if p.insecure = ""; a.on {
				p.insecure = a.from
			}
			return nil
		},
	},
	{
		Names: []string{"heartbeat"}, Group: GroupEnd, Value: "D",
		Help: fmt.Sprintf(
			"nodes hear of each other at least so often, and one that is not heard for five of them is lost (default: %.0f)",
			job.DefaultHeartbeat.Seconds()),
		set: func(p *parser, a arg) (err error) {
			p.inv.Spec.Heartbeat, err = parseWithin(a.value, minHeartbeat, maxHeartbeat)
			return err
		},
	},
	{
		Names: []string{"logs-to"}, Group: GroupOutput, Value: "node|head", Choices: []string{"node", "head"},
		Help: "whose disk has the files of --tee and --redirects: each node's own, or node 0's for all (default: node)",
		set: func(p *parser, a arg) error {
			p.inv.Spec.Output.LogsToHead = a.value == "head"
			return oneOf(a.value, "node", "head")
		},
	},
}

// Bounds of times: below, the machinery takes longer by itself; above, nobody waits
// for the end of it.
const (
	minHeartbeat, maxHeartbeat       = 100 * time.Millisecond, 10 * time.Minute
	minReachTimeout, maxReachTimeout = 100 * time.Millisecond, 24 * time.Hour
)

// reachGiven is what named options that exclude each other.
type reachGiven struct{ command, config, acceptNew string }

// parseWithin reads a time between two bounds.
func parseWithin(value string, least, most time.Duration) (time.Duration, error) {
	d, err := parseDuration(value)
	if err == nil && (d < least || d > most) {
		err = fmt.Errorf("not a time from %v to %v", least, most)
	}
	return d, err
}

// remotePath takes a path on another host, where it stands in a command.
func remotePath(into *string, a arg) error {
	if a.value != "" && a.value[0] == '-' {
		return errors.New("a path that begins with a dash would be taken for an option there: write ./ before it")
	}
	return text(into, a)
}

// setSSH splits the command as a shell would.
func (p *parser) setSSH(a arg) (err error) {
	p.reach.command = a.from
	p.inv.Spec.Reach.Command, err = splitCommand(a.value)
	return err
}

// setExportAll takes the whole environment, or the list where another launcher would have
// sent more.
func (p *parser) setExportAll(a arg) error {
	p.inv.Spec.ExportAll, p.mpi.listed = a.on, !a.on
	return nil
}

// settleReach: of gorun's own SSH and a program in its place what was typed counts.
func (p *parser) settleReach() {
	given, reach := &p.reach, &p.inv.Spec.Reach
	if rsh := p.mpi.rsh; rsh.from != "" && (given.command == "" || strings.HasPrefix(given.command, "GORUN_") &&
		!isVariable(rsh.from)) {
		given.command, reach.Command = rsh.from, []string{rsh.value}
	}
	own := joinWords(given.config, given.acceptNew)
	weakOwn := own != "" && (given.config == "" || isVariable(given.config)) &&
		(given.acceptNew == "" || isVariable(given.acceptNew))
	args := p.mpi.sshArgs.from
	typed := given.command != "" && !isVariable(given.command) || args != "" && !isVariable(args)
	switch {
	case own == "" || weakOwn != typed: // one of them, or both as strong
	case typed:
		p.remark(own + " does not count beside " + joinWords(given.command, args))
		given.config, given.acceptNew, reach.SSHConfig, reach.AcceptNew = "", "", "", false
	case joinWords(given.command, args) != "":
		p.remark(joinWords(given.command, args) + " does not count beside " + own)
		given.command, reach.Command, p.mpi.sshArgs.from = "", nil, ""
	}
}

// addSSHArgs puts arguments behind the command that reaches other hosts, or behind the ssh
// that they make it.
func (p *parser) addSSHArgs() {
	args, reach := p.mpi.sshArgs, &p.inv.Spec.Reach
	byEngine := p.reach.command == "" && reach.Engine != nil && (reach.Engine.Once != nil || reach.Command != nil)
	switch {
	case args.from == "":
	case byEngine:
		p.remark(args.from + " has nothing to do: " + reach.Engine.Job + " starts the agents")
	case slices.ContainsFunc(reach.Command, func(word string) bool { return strings.Contains(word, "{host}") }):
		p.problem(fmt.Errorf("%s: %s says itself where the host stands: write the arguments into it", args.from,
			p.reach.command))
	case p.reach.command != "":
		reach.Command = slices.Concat(reach.Command, args.words)
	default:
		p.reach.command, reach.Command = args.from, append([]string{"ssh"}, args.words...)
	}
}

// finishReach: an external program knows nothing of gorun's own SSH.
func (p *parser) finishReach() {
	p.addSSHArgs()
	if p.reach.command == "" {
		return
	}
	for _, o := range []struct{ option, instead string }{
		{p.reach.config, "--ssh 'ssh -F FILE'"}, {p.reach.acceptNew, "--ssh 'ssh -o StrictHostKeyChecking=accept-new'"},
	} {
		if o.option != "" {
			p.problem(fmt.Errorf("%s is for gorun's own SSH, and %s takes another program's: write it into the command, such "+
				"as %s", o.option, p.reach.command, o.instead))
		}
	}
}
