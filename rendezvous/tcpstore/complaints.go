package tcpstore

import (
	"fmt"
	"net/netip"
)

// fault is a kind of thing for which a peer is refused or disconnected.
type fault uint8

const (
	faultRefused  fault = iota // not an accepted address
	faultUser                  // on this host, and not an accepted user
	faultSilent                // no greeting in time
	faultStranger              // no client
	faultOld                   // a client before PyTorch 2.2
	faultRequest               // a request that is none, or past a limit
	faultNumber                // a counter that holds no number
	faultMemory                // the store is full
	faultCrowd                 // no room for connections
	faultShare                 // a host's share of connections is taken
)

// complaint is what is said once.
type complaint struct {
	peer netip.Addr
	// of the process, as all ranks of a host have one address, 0 where it is not known; of the user for faultUser
	id   uint32
	kind fault
}

// mostComplaints bounds the log, and the memory for it, against somebody who scans ports from many addresses.
const mostComplaints = 256

// complaints says what is wrong with peers, once for each address, process or user where it is known, and kind of
// fault.
type complaints struct {
	logf func(format string, args ...any)
	said map[complaint]struct{}
}

func (c *complaints) say(this complaint, format string, args ...any) {
	if _, again := c.said[this]; again || len(c.said) > mostComplaints {
		return
	}
	if c.said == nil {
		c.said = make(map[complaint]struct{})
	}
	c.said[this] = struct{}{}
	if len(c.said) > mostComplaints {
		c.logf("the store refused or disconnected %d kinds of peers: from here on it is silent about others", mostComplaints)
		return
	}
	c.logf("%s", fmt.Sprintf(format, args...))
}
