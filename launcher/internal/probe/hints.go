package probe

import (
	"cmp"

	"gorun/internal/shellwords"
)

// runOn returns a command to run on a node: as it is if the problem is about that node alone, or else through ssh.
func (j *judge) runOn(node int, nodes []int, command string) string {
	if len(nodes) == 1 && nodes[0] == node {
		return command
	}
	return "ssh " + shellwords.Quote(j.Nodes[node].Name) + " " + shellwords.Quote(command)
}

// destination returns the address of a path as commands on the dialing node take it: a link-local one with its zone.
func (j *judge) destination(p *Path) string {
	addr := p.Addr.WithZone("")
	if addr.IsLinkLocalUnicast() {
		addr = addr.WithZone(cmp.Or(j.Endpoints[p.From].Interface, p.Result.Interface))
	}
	return shellwords.Quote(addr.String())
}

// withDevice appends a node's interface to an option; "" if it is unknown.
func (j *judge) withDevice(option string, node int) string {
	if name := j.Endpoints[node].Interface; name != "" {
		return option + shellwords.Quote(name)
	}
	return ""
}

// showSpeed returns a command that shows the speed of a node's link.
func (j *judge) showSpeed(node int) string {
	return cmp.Or(j.withDevice("ethtool ", node), "ip -br link")
}
