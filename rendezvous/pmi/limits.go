package pmi

import (
	"time"

	"gorun/rendezvous/exchange"
)

// What clients are told by get_maxes. A name of a world has at most 63 bytes. The longer a
// value may be, the fewer does MPICH need: its ranks on several hosts tell each other 4 KiB
// in hexadecimal digits, which is one value here, and would be ten of 1,024 bytes. Clients
// of MPICH 3.4 to 4.0 have lines of 1,024 bytes and lower the last number themselves to
// what the first two leave of a line: 866.
const (
	kvsNameMax = 64
	keyMax     = 64
	valueMax   = 16 << 10
)

// mappingMax is the most bytes of a PMI_process_mapping: the answer has to fit a line of
// 1,024 bytes, and the value what MPICH 3.4 to 4.0 make of valueMax.
const mappingMax = 800

// replyMax is the length up to which an answer fits a line of MPICH 4.0 and older.
const replyMax = 1000

// What a server takes from one client, which is ended where it goes past. All are far from
// what real programs send.
const (
	maxLine    = 256 << 10 // bytes of a PMI-1 line: an argument of a spawned program has at most 128 KiB
	maxFrame   = 999999    // bytes of a PMI-2 message: its length has six digits
	maxFields  = 64        // fields of a PMI-1 line
	maxSpawn   = 4 << 20   // bytes of a spawn
	maxEntries = 64 << 10  // fields of a PMI-2 message or of a spawn
	maxKeys    = 64 << 10  // keys that a rank has put
	maxBytes   = 16 << 20  // bytes of these and of their values
	maxAttrs   = 4 << 20   // bytes of PMI-2's attributes of its host that it has put
	maxPending = 256       // requests that are not answered yet
	maxGroups  = 1024      // groups with barriers of their own that it has named first
	maxUnsent  = 64 << 10  // bytes of answers that it has not read before its next request is read
	maxUnread  = 4 << 20   // bytes of answers that it has not read
)

// drain is how long what a rank sent before it ended may take to be read, where another
// process still holds its end of the connection: without one the end comes at once.
const drain = time.Second

// maxFresh is how many bytes of new pairs a node takes to a barrier, half of which are shared
// out evenly among its ranks.
const maxFresh = exchange.MaxBlob - 1<<10
