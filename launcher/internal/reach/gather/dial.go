package gather

import (
	"context"
	"fmt"
	"net"
	"os"

	"gorun/internal/version"
	"gorun/launcher/internal/reach/join"
)

// Dial connects an agent to its head and returns once all agents are connected. lookup looks a
// variable up in the agent's environment. After gone is closed Dial does not retry: the head may
// have exited.
func Dial(ctx context.Context, i *Invitation, gone <-chan struct{},
	lookup func(name string) (string, bool),
) (net.Conn, error) {
	self := join.Hello{Version: version.String(), NumNodes: i.NumNodes, NodeRank: -1}
	self.Host, _ = os.Hostname() // the head refuses an empty name
	for _, name := range i.NodeIDs {
		if v, ok := lookup(name); ok && v != "" && self.NodeID == "" {
			self.NodeID = v
		}
	}
	joined, err := i.dial(ctx, self, gone)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nodeName(&self), err)
	}
	return joined.Conn, nil
}

func (i *Invitation) dial(ctx context.Context, self join.Hello, gone <-chan struct{}) (*join.Membership, error) {
	return join.Dial(ctx, join.Config{
		Addrs: i.Addrs, Port: i.Port, NoRetry: gone, Secret: i.Token, Timeout: i.Within, Self: self,
	})
}
