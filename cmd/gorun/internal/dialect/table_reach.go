package dialect

import (
	"fmt"
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
			Names: []string{"exclude"}, Group: GroupHosts, Value: "HOST,...", Set: keepAll(&p.excluded),
			Help: "hosts of -H, of --hostfile or of the resource manager to leave out, ranges too; localhost is this one",
		},
		{
			Names: []string{"oversubscribe"}, Group: GroupHosts, Family: familyOversubscribe, Set: p.setOversubscribe(true),
			Help: "allow more ranks than the hosts have slots",
		},
		{
			Names: []string{"ssh-config"}, Group: GroupReach, Value: "FILE",
			Help: "configuration of ssh to use in place of your own, as ssh -F",
			Set:  withFrom(&p.reach.configFrom, Text(&reach.SSHConfig)),
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
			Set: p.engine.wanted.parsed(parseEngine),
		},
		{
			Names: []string{"token-file"}, Group: GroupMeeting, Value: "FILE", Set: keep(&p.tokenFile),
			Help: "file with the secret of nodes that join each other, the same on all of them (default: GORUN_TOKEN, else " +
				"what gorun token --save made)",
		},
		{
			Names: []string{"insecure-join"}, Group: GroupMeeting, Set: switchFrom(&p.insecureFrom),
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
