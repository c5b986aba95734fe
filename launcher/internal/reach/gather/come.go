package gather

import (
	"context"
	"fmt"
	"net"
	"os"

	"gorun/internal/version"
	"gorun/launcher/internal/reach/join"
)

// Come takes an agent to its head and returns the stream between them, once all agents
// have come. lookup returns a variable of the agent's environment. Once gone is closed,
// as the head may be gone, it is not tried again.
func Come(ctx context.Context, i *Invitation, gone <-chan struct{},
	lookup func(name string) (string, bool),
) (net.Conn, error) {
	own := join.Hello{Version: version.String(), NumNodes: i.NumNodes, NodeRank: -1}
	own.Host, _ = os.Hostname() // "" matches no host, which the head says
	for _, name := range i.NodeIDs {
		if v, ok := lookup(name); ok && v != "" && own.NodeID == "" {
			own.NodeID = v
		}
	}
	joined, err := i.join(ctx, own, gone)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nodeName(&own), err)
	}
	return joined.Conn, nil
}

func (i *Invitation) join(ctx context.Context, own join.Hello, gone <-chan struct{}) (*join.Membership, error) {
	return join.Dial(ctx, join.Config{
		Addrs: i.Addrs, Port: i.Port, NoRetry: gone, Secret: i.Token, Timeout: i.Within, Self: own,
	})
}
