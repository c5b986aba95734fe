package tcpstore

import (
	"fmt"
	"net/netip"
)

// fault is a kind of reason to refuse or disconnect a peer.
type fault uint8

const (
	faultRefused   fault = iota // an address that is not accepted
	faultUser                   // a user of this host that is not accepted
	faultSilent                 // no greeting in time
	faultNotClient              // not a client
	faultOld                    // a client before PyTorch 2.2
	faultRequest                // an invalid request, or one that exceeds a limit
	faultNumber                 // a counter that is not a number
	faultMemory                 // the store is full
	faultFull                   // no room for connections
	faultShare                  // the host's share of connections is taken
)

// complaint identifies a message that is logged once.
type complaint struct {
	peer netip.Addr
	// id is that of the process, 0 if unknown, since all ranks of a host share an address; for faultUser it is the user's.
	id   uint32
	kind fault
}

// maxComplaints bounds the log and its memory against scans from many addresses.
const maxComplaints = 256

// complaints logs what is wrong with peers, once for each complaint.
type complaints struct {
	logf   func(format string, args ...any)
	logged map[complaint]struct{}
}

func (c *complaints) log(m complaint, format string, args ...any) {
	if _, again := c.logged[m]; again || len(c.logged) > maxComplaints {
		return
	}
	if c.logged == nil {
		c.logged = make(map[complaint]struct{})
	}
	c.logged[m] = struct{}{}
	if len(c.logged) > maxComplaints {
		c.logf("the store refused or disconnected %d kinds of peers, and no longer logs others", maxComplaints)
		return
	}
	c.logf("%s", fmt.Sprintf(format, args...))
}
