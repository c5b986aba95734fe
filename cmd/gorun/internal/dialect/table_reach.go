package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorun/launcher/hosts/engine"
	"gorun/launcher/job"
)

// reachTable holds what gorun's own dialect has on other hosts that it starts
// ranks on.
func reachTable(p *Line) []Option {
	reach := &p.Spec.Reach
	return []Option{
		{
			Names: []string{"exclude"}, Group: GroupHosts, Value: "HOST,...", Set: p.setExclude,
			Help: "hosts of -H, of --hostfile or of the resource manager to leave out, ranges too; localhost is this one",
		},
		{
			Names: []string{"oversubscribe"}, Group: GroupHosts, Family: familyOversubscribe, Set: p.setOversubscribe(true),
			Help: "allow more ranks than the hosts have slots",
		},
		{
			Names: []string{"ssh-config"}, Group: GroupReach, Value: "FILE",
			Help: "configuration of ssh to use in place of your own, as ssh -F",
			Set:  saidBy(&p.reach.config, Text(&reach.SSHConfig)),
		},
		{
			Names: []string{"ssh"}, Group: GroupReach, Value: "'CMD ...'", Family: familySSH, Set: p.setSSH,
			Help: "program in place of gorun's own SSH; it gets host and command behind its arguments, or {host}, {user}, " +
				"{port} filled in",
		},
		{
			Names: []string{"ssh-accept-new"}, Group: GroupReach, Set: p.setAcceptNew,
			Help: "add the keys of hosts that are not known yet to the known ones; changed keys are refused all the same",
		},
		{
			Names: []string{"ssh-at-once"}, Group: GroupReach, Value: "N", Set: Parsed(&reach.AtOnce, ParseRanks),
			Help: fmt.Sprintf("hosts that are being reached at the same time (default: %d)", job.DefaultAtOnce),
		},
		{
			Names: []string{"ssh-timeout"}, Group: GroupReach, Value: "D", Family: familySSHTimeout,
			Help: fmt.Sprintf("how long reaching one host may take, as a time (default: %.0f, and %.0f to connect)",
				job.DefaultReachTimeout.Seconds(), job.DefaultConnectTimeout.Seconds()),
			Set: Parsed(&reach.Timeout, within(minReachTimeout, maxReachTimeout)),
		},
		{
			Names: []string{"agent"}, Group: GroupReach, Value: "PATH", Set: p.setAgent,
			Help: "gorun on the other hosts, to use in place of a copy of this one",
		},
		{
			Names: []string{"copy"}, Group: GroupReach, Value: "PATH", From: NoVar, Set: p.setCopy,
			Help: "file or directory to send to each other host before the start; may be repeated",
		},
		{
			Names: []string{"export-all", "genvall"}, Group: GroupReach, Family: familyExport, Set: p.setExportAll,
			Help: "give ranks on other hosts the whole environment, but what belongs to one host (default: the list in " +
				"docs/reference/variables.md, and -x)",
		},
	}
}

// nodesTable holds what every dialect has on jobs of several nodes.
func nodesTable(p *Line) []Option {
	managers := engine.Names()
	return []Option{
		{
			Names: []string{"engine"}, Group: GroupHosts, Value: "NAME", Choices: managers, Family: familyEngine,
			Help: "resource manager in whose job gorun runs: " + strings.Join(managers, ", ") +
				" (default: the one whose variables are set)",
			Set: p.setEngine,
		},
		{
			Names: []string{"token-file"}, Group: GroupMeeting, Value: "FILE", Set: given(&p.tokenFile),
			Help: "file with the secret of nodes that join each other, the same on all of them (default: GORUN_TOKEN, else " +
				"what gorun token --save made)",
		},
		{
			Names: []string{"insecure-join"}, Group: GroupMeeting, Set: switchedBy(&p.insecure),
			Help: "let nodes join without a token: anybody who reaches the port can",
		},
		{
			Names: []string{"heartbeat"}, Group: GroupEnd, Value: "D",
			Help: fmt.Sprintf(
				"nodes hear of each other at least so often, and one that is not heard for five of them is lost (default: %.0f)",
				job.DefaultHeartbeat.Seconds()),
			Set: Parsed(&p.Spec.Heartbeat, within(minHeartbeat, maxHeartbeat)),
		},
		{
			Names: []string{"logs-to"}, Group: GroupOutput, Value: "node|head",
			Help: "whose disk has the files of --tee and --redirects: each node's own, or node 0's for all (default: node)",
			Set:  Either(&p.Spec.Output.LogsToHead, "node", "head"),
		},
	}
}

// Bounds of times: below, the machinery takes longer by itself; above, nobody waits
// for the end of it.
const (
	minHeartbeat, maxHeartbeat       = 100 * time.Millisecond, 10 * time.Minute
	minReachTimeout, maxReachTimeout = 100 * time.Millisecond, 24 * time.Hour
)

// reachGiven is what named options that exclude each other.
type reachGiven struct{ command, config, acceptNew string }

// setAgent takes a path on another host, where it stands in a command.
func (p *Line) setAgent(a Arg) error {
	if strings.HasPrefix(a.Value, "-") {
		return errors.New("a path that begins with a dash would be taken for an option there: write ./ before it")
	}
	return text(&p.Spec.Reach.Agent, a)
}

func (p *Line) setCopy(a Arg) error {
	p.Spec.Reach.Copy = append(p.Spec.Reach.Copy, a.Value)
	return text(new(string), a)
}

func (p *Line) setAcceptNew(a Arg) error {
	if p.Spec.Reach.AcceptNew = a.On; a.On {
		p.reach.acceptNew = a.From
	}
	return nil
}

// setSSH splits the command as a shell would.
func (p *Line) setSSH(a Arg) (err error) {
	p.reach.command = a.From
	p.Spec.Reach.Command, err = splitCommand(a.Value)
	return err
}

// setExportAll takes the whole environment, or the list where another launcher would have
// sent more.
func (p *Line) setExportAll(a Arg) error {
	p.Spec.ExportAll, p.mpi.listed = a.On, !a.On
	return nil
}

// settleReach: of gorun's own SSH and a program in its place what was typed counts.
func (p *Line) settleReach() {
	given, reach := &p.reach, &p.Spec.Reach
	if rsh := p.mpi.rsh; rsh.From != "" && (given.command == "" || strings.HasPrefix(given.command, "GORUN_") &&
		!isVariable(rsh.From)) {
		given.command, reach.Command = rsh.From, []string{rsh.Value}
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
func (p *Line) addSSHArgs() {
	args, reach := p.mpi.sshArgs, &p.Spec.Reach
	byEngine := p.reach.command == "" && reach.Engine != nil && (reach.Engine.Once != nil || reach.Command != nil)
	switch {
	case args.from == "":
	case byEngine:
		p.remark(args.from + " has nothing to do: " + reach.Engine.Job + " starts the agents")
	case slices.ContainsFunc(reach.Command, func(word string) bool { return strings.Contains(word, "{host}") }):
		p.problem("%s: %s says itself where the host stands: write the arguments into it", args.from,
			p.reach.command)
	case p.reach.command != "":
		reach.Command = slices.Concat(reach.Command, args.words)
	default:
		p.reach.command, reach.Command = args.from, append([]string{"ssh"}, args.words...)
	}
}

// finishReach: an external program knows nothing of gorun's own SSH.
func (p *Line) finishReach() {
	p.addSSHArgs()
	if p.reach.command == "" {
		return
	}
	for _, o := range []struct{ option, instead string }{
		{p.reach.config, "--ssh 'ssh -F FILE'"}, {p.reach.acceptNew, "--ssh 'ssh -o StrictHostKeyChecking=accept-new'"},
	} {
		if o.option != "" {
			p.problem("%s is for gorun's own SSH, and %s takes another program's: write it into the command, such "+
				"as %s", o.option, p.reach.command, o.instead)
		}
	}
}
