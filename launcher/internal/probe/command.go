package probe

import (
	"cmp"

	"gorun/internal/shellwords"
)

// on is a command for a node: as it is where the node is the only one of whom is spoken,
// else by ssh.
func (j *judge) on(node int, nodes []int, command string) string {
	if len(nodes) == 1 && nodes[0] == node {
		return command
	}
	return "ssh " + shellwords.Quote(j.Names[node]) + " " + shellwords.Quote(command)
}

// dialed is the address of a way as its first node's commands take it: one of a link alone
// with the interface.
func (j *judge) dialed(w *Path) string {
	addr := w.Addr.WithZone("")
	if name := cmp.Or(j.Endpoints[w.From].Interface, w.Result.Interface); addr.IsLinkLocalUnicast() && name != "" {
		addr = addr.WithZone(name)
	}
	return shellwords.Quote(addr.String())
}

// device names a node's interface behind a command that takes all without.
func (j *judge) device(node int, before string) string {
	if name := j.Endpoints[node].Interface; name != "" {
		return before + shellwords.Quote(name)
	}
	return ""
}

// negotiated shows the speed of a node's link.
func (j *judge) negotiated(node int) string {
	return cmp.Or(j.device(node, "ethtool "), "ip -br link")
}
