// Streams between ranks of different hosts, over sockets that the calling thread drives itself.
#ifndef GORUN_NET_H
#define GORUN_NET_H

#include "state.h"

// What precedes a message's bytes. Both ends know what to expect, so it is only compared.
struct net_header {
	uint8_t kind, dtype, op, unused;
	uint32_t root;
	uint64_t count, sequence;
	uint64_t bytes; // of this message, behind the header
};

enum {
	NET_SMALL = 256,        // up to here header and bytes are one piece: one plain system call
	NET_WINDOW = 1 << 20,   // room for what came and was not used yet
	NET_CHUNK = 128 << 10   // used at once
};

// A flow is one message to or from a rank.
struct flow {
	int rank, out;
	char *data;
	size_t bytes;
	size_t moved;       // bytes of the message, without the header, that were sent or have come
	size_t head;        // bytes of the header, with those of a small message, that were
	size_t window;      // of one that comes: the size of its ring in bytes; 0: they have room for all
	const size_t *gate; // NULL, or how far it may go: of one that goes the bytes ready to be sent, of one with a window what was used of it
	struct net_header expected;
	struct {
		struct net_header header;
		char small[NET_SMALL];
	} frame;
};

// flow_to and flow_from add a message to the flows of the present call.
struct flow *flow_to(struct engine *, int *n, int rank, const void *data, size_t bytes);
struct flow *flow_from(struct engine *, int *n, int rank, void *data, size_t bytes);

// net_run moves all flows. After each step that moved something use(state), where there is one, may take what came; it says in *used whether it did.
typedef int (*net_use)(struct engine *, void *state, int *used);
int net_run(struct engine *, int flows, net_use use, void *state);

// net_buffer is memory of at least that size that the next call with this number may overwrite; NULL: the group failed for lack of it.
char *net_buffer(struct engine *, int number, size_t bytes);

#endif
