package join

import "fmt"

// NoSecretError is that nodes on several hosts have nothing by which they know each other.
type NoSecretError struct {
	// Endpoint is where they would meet.
	Endpoint string
	// NoSealer is that of the Config.
	NoSealer string
}

func (e *NoSecretError) Error() string {
	return fmt.Sprintf("join nodes at %s: no token%s: anybody who reaches that port could take a node's place",
		e.Endpoint, inBrackets(e.NoSealer))
}

// checkSecret refuses nodes on several hosts that have no secret, unless the user wants them.
func (c *Config) checkSecret() error {
	if c.Secret != nil || c.Sealer != nil || c.Insecure || isLoopback(c.Addr) {
		return nil
	}
	return &NoSecretError{Endpoint: c.endpoint(), NoSealer: c.NoSealer}
}

// isWeak reports whether nodes prove nothing.
func (c *Config) isWeak() bool { return c.Secret == nil && c.Sealer == nil && c.Insecure }

// isOwn reports whether nodes are processes of this user on this host.
func (c *Config) isOwn() bool { return c.Secret == nil && c.Sealer == nil && !c.Insecure }

// warn says what it means that nodes prove nothing: once on each of them, and once where all
// write to one place.
func (c *Config) warn() {
	if !c.isWeak() || c.RankPerNode && c.Self.NodeRank > 0 {
		return
	}
	c.Notify(fmt.Sprintf(
		"nodes join at %s without a token%s: anybody who reaches that port can take a node's place, and anybody on "+
			"the way can read and change what nodes say to each other; run `gorun token --save` once where nodes share your "+
			"home "+
			"directory, or give all nodes the same --token-file FILE",
		c.endpoint(), inBrackets(c.NoSealer)))
}

func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}
