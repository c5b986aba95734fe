package dialect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gorun/launcher/hosts/engine"
	"gorun/launcher/job"
)

// reachTable holds gorun's own options on other hosts.
func reachTable(p *Line) []Option {
	reach := &p.Spec.Reach
	return slices.Concat(inGroup(GroupHosts, []Option{
		{
			Names: "exclude", Value: "HOST,...", Set: keepAll(&p.excluded),
			Help: "leave out hosts and ranges of hosts; localhost is this host",
		},
		{
			Names: "min-nodes", Value: "N", Set: withFrom(&p.elasticFrom, Parsed(&p.Spec.MinNodes, AtLeast(1))),
			Help: "restart without lost hosts while N are left",
		},
		{
			Names: "spares", Value: "N", Set: withFrom(&p.elasticFrom, Parsed(&p.spares, AtLeast(1))),
			Help: "keep the last N hosts ready to take the places of lost ones",
		},
		{
			Names: "oversubscribe", Family: familyOversubscribe, Set: p.setOversubscribe(true),
			Help: "allow more ranks than the hosts have slots",
		},
	}), inGroup(GroupReach, []Option{
		{
			Names: "ssh-config", Value: "FILE", Set: withFrom(&p.reach.configFrom, Text(&reach.SSHConfig)),
			Help: "read FILE instead of your SSH configuration, as ssh -F",
		},
		{
			Names: "ssh", Value: "'CMD ...'", Family: familySSH, Set: p.setSSH,
			Help: "run CMD HOST ... instead of gorun's SSH; {host} moves the host",
		},
		{
			Names: "ssh-accept-new", Set: p.setAcceptNew,
			Help: "accept keys of unknown hosts; changed keys are still refused",
		},
		{
			Names: "ssh-at-once", Value: "N", Set: Parsed(&reach.AtOnce, ParseRanks),
			Help: fmt.Sprintf("reach N hosts at the same time (%d)", job.DefaultAtOnce),
		},
		{
			Names: "ssh-timeout", Value: "D", Family: familySSHTimeout,
			Help: fmt.Sprintf("give up on a host after D (%.0f, and %.0f to connect)",
				job.DefaultReachTimeout.Seconds(), job.DefaultConnectTimeout.Seconds()),
			Set: Parsed(&reach.Timeout, within(minReachTimeout, maxReachTimeout)),
		},
		{
			Names: "agent", Value: "PATH", Set: p.setAgent,
			Help: "run gorun at PATH on other hosts (a copy of this gorun)",
		},
		{
			Names: "copy", Value: "PATH", From: NoVar, Set: p.setCopy,
			Help: "send a file or directory to the other hosts first; repeatable",
		},
		{
			Names: "export-all genvall", Family: familyExport, Set: p.setExportAll,
			Help: "export the whole environment to other hosts (a list, and -x)",
		},
	}))
}

// nodesTable holds the options on jobs of several nodes that every dialect has.
func nodesTable(p *Line) []Option {
	return []Option{
		{
			Names: "engine", Group: GroupHosts, Value: "NAME", Choices: strings.Join(engine.Names(), "|"), Family: familyEngine,
			Help: "use the job of resource manager NAME, or none (detected)", Set: p.engine.wanted.parsed(parseEngine),
		},
		{
			Names: "check", Group: GroupHosts, Set: Switch(&p.Spec.Check),
			Help: "check all hosts for 2 s before each attempt; leave out bad ones",
		},
		{
			Names: "token-file", Group: GroupMeeting, Value: "FILE", Set: keep(&p.tokenFile),
			Help: "read the secret of nodes that join from FILE (GORUN_TOKEN)",
		},
		{
			Names: "insecure-join", Group: GroupMeeting, Set: switchFrom(&p.insecureFrom),
			Help: "let nodes join without a token: anyone who reaches the port can",
		},
		{
			Names: "grow", Group: GroupEnd, Set: Switch(&p.Spec.Grow),
			Help: "restart for nodes that come later or are back (torchrun: always)",
		},
		{
			Names: "heartbeat", Group: GroupEnd, Value: "D",
			Help: fmt.Sprintf("send heartbeats every D; a node that misses five is lost (%.0f)",
				job.DefaultHeartbeat.Seconds()),
			Set: Parsed(&p.Spec.Heartbeat, within(minHeartbeat, maxHeartbeat)),
		},
		{
			Names: "logs-to", Group: GroupOutput, Value: "node|head",
			Help: "write log files on each node, or all of them on node 0 (node)",
			Set:  Second(&p.Spec.Output.LogsToHead),
		},
	}
}

// Bounds of times: below, gorun itself takes longer; above, nobody waits for the end.
const (
	minHeartbeat, maxHeartbeat       = 100 * time.Millisecond, 10 * time.Minute
	minReachTimeout, maxReachTimeout = 100 * time.Millisecond, 24 * time.Hour
)
