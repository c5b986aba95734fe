package join

import "fmt"

// NoSecretError reports that nodes on several hosts have nothing to authenticate each other with.
type NoSecretError struct {
	// Endpoint is node 0's address.
	Endpoint string
	// NoSealer is the Config's.
	NoSealer string
}

func (e *NoSecretError) Error() string {
	return fmt.Sprintf("join nodes at %s: no token%s: anyone who reaches that port could join as a node",
		e.Endpoint, inBrackets(e.NoSealer))
}

// checkSecret refuses nodes on several hosts without a secret, unless the user accepts them.
func (c *Config) checkSecret() error {
	if c.authenticates() || c.Insecure || isLoopback(c.Addr) {
		return nil
	}
	return &NoSecretError{Endpoint: c.endpoint(), NoSealer: c.NoSealer}
}

func (c *Config) authenticates() bool { return c.Secret != nil || c.Sealer != nil }

// isInsecure reports whether nodes prove nothing.
func (c *Config) isInsecure() bool { return !c.authenticates() && c.Insecure }

// isOneUser reports whether nodes must be processes of this user on this host.
func (c *Config) isOneUser() bool { return !c.authenticates() && !c.Insecure }

// warn explains the risk of an insecure join: once per node, and once in total where all nodes print to one place.
func (c *Config) warn() {
	if !c.isInsecure() || c.Rejoins || c.RankPerNode && c.Self.NodeRank > 0 {
		return
	}
	c.Notify(fmt.Sprintf(
		"nodes join at %s without a token%s: anyone who reaches that port can join as a node, and anyone on the "+
			"network path can read and change messages between nodes; run `gorun token --save` once if nodes share "+
			"your home directory, or give all nodes the same --token-file FILE",
		c.endpoint(), inBrackets(c.NoSealer)))
}

func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}
