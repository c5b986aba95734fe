package pmi

import (
	"time"

	"gorun/rendezvous/exchange"
)

// What get_maxes tells clients. The name of a world has at most 63 bytes. Long values save MPICH requests: ranks on
// several hosts exchange 4 KiB as hexadecimal digits, which is one value here and ten of 1,024 bytes. Clients of MPICH
// 3.4 to 4.0 have lines of 1,024 bytes, and lower valueMax themselves to what the first two leave of one, 866.
const (
	kvsNameMax = 64
	keyMax     = 64
	valueMax   = 16 << 10
)

// mappingMax bounds PMI_process_mapping, in bytes: the reply must fit a line of 1,024 bytes, and the value what MPICH
// 3.4 to 4.0 make of valueMax.
const mappingMax = 800

// replyMax is the length of replies that fit a line of MPICH 4.0 and older.
const replyMax = 1000

// Limits of one client, far above what real programs need. The connection of a client that exceeds one is closed.
const (
	maxLine    = 256 << 10 // bytes of a PMI-1 line; an argument of a spawned program has at most 128 KiB
	maxFrame   = 999999    // bytes of a PMI-2 message, whose length has six digits
	maxFields  = 64        // fields of a PMI-1 line
	maxSpawn   = 4 << 20   // bytes of a spawn
	maxEntries = 64 << 10  // fields of a PMI-2 message or of a spawn
	maxKeys    = 64 << 10  // keys that the rank has put
	maxBytes   = 16 << 20  // bytes of these keys and their values
	maxAttrs   = 4 << 20   // bytes of host attributes that the rank has put
	maxPending = 256       // requests without a reply
	maxGroups  = 1024      // groups in a barrier that the rank named first
	maxUnsent  = 64 << 10  // bytes of unread replies before the next request is read
	maxUnread  = 4 << 20   // bytes of unread replies
)

// drainTimeout is how long to read what a rank sent before it exited, if another process holds its end of the
// connection. Otherwise the end comes at once.
const drainTimeout = time.Second

// maxFresh is how many bytes of new pairs a node brings to a barrier.
const maxFresh = exchange.MaxBlob - 1<<10
