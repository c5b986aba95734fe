// The memory that the ranks of one host share, and who writes what in it. Every word has exactly one writer, apart from those marked "anybody".
//
//   header | one area for each rank | one pair for each ordered pair of ranks | one shelf for each rank | one ring for each rank | one ring for each pair
//
// The file behind it is sparse: a page costs memory once somebody writes it, so a group of 64 ranks that only meets in barriers stays small
// however large its rings could grow.
#ifndef GORUN_SEGMENT_H
#define GORUN_SEGMENT_H

#include "names.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// A line carries one call's announcement and, where it fits, its data. Two cache lines apart, since CPUs prefetch the neighbour.
enum { LINE_STRIDE = 128, LINE_PAYLOAD = 56, LINES = 64, PAIR_LINES = 16, LATE_WORDS = 64 };

struct line {
	_Alignas(LINE_STRIDE) _Atomic uint64_t head; // signature << 32 | low half of the sequence number; written last
	char payload[LINE_PAYLOAD];
};

struct counter {
	_Alignas(LINE_STRIDE) _Atomic uint64_t value;
};

// What a call is, in full, as its line's payload where the data does not fit there. Both ends compare all of it.
struct announcement {
	uint8_t kind, dtype, op, unused;
	uint32_t root;
	uint64_t count;
	uint64_t send, recv; // where the buffers lie in shared memory of the user's: region << 48 | offset, 0 where they don't
};

// Why the group cannot go on. The first rank that notices writes it; nobody ever clears it.
enum failure_kind { FAIL_NONE, FAIL_LOST, FAIL_LEFT, FAIL_TIMEOUT, FAIL_MISMATCH, FAIL_ABORTED };

// Ranks in it are counted as the group counts them, over all its hosts.
struct failure {
	uint32_t kind, rank, other; // who noticed, FAIL_MISMATCH against whom; FAIL_LOST and FAIL_LEFT: who is gone, and who noticed
	uint32_t imported;          // 1: another host's ranks noticed and reported it
	uint64_t sequence, after_ns;
	struct announcement call, other_call;
	uint64_t late[LATE_WORDS]; // FAIL_TIMEOUT: bit i: rank i is late
	char text[256];            // FAIL_ABORTED: the reason
};

struct header {
	_Atomic uint32_t failed;      // anybody: 0, 1 while the failure is being written, 2 once it is complete
	_Alignas(LINE_STRIDE) _Atomic uint32_t sleepers; // anybody: how many ranks sleep in the kernel or are about to
	_Alignas(LINE_STRIDE) struct failure failure;
};

// Which of a rank's words somebody waits for, so that only posts of this sort wake it. CH_NET is a wait for a rank of another host, by its number
// in the group.
enum channel { CH_LINE, CH_DONE, CH_RING, CH_TAKEN, CH_PAIR, CH_NET };

// A call over hosts as its caller made it, beside the calls among local ranks of which it is made.
struct whole_call {
	_Atomic uint64_t sequence; // of the call; written last
	_Atomic uint64_t what;     // kind | dtype << 8 | op << 16 | root << 32
	_Atomic uint64_t count;
};

enum { WHOLE_CALLS = 8 };

// What a rank waits for that has waited long enough to sleep, for those who wonder whether it and they wait for each other. All but number is
// written before it.
struct wanted {
	_Atomic uint64_t number;      // of the wait, 0: none
	_Atomic uint64_t rank, half;  // whose word; whether it is the lower half of a line's head
	_Atomic uint64_t word, least; // where in the segment it lies, and what it must reach
	_Atomic uint64_t what, count; // the call, as in struct whole_call
};

struct area {
	struct line lines[LINES];
	struct counter done;     // calls up to here are verified: their lines may be written again
	struct counter produced; // units in the own ring
	struct counter gone;     // anybody: 1 the process ended, 2 it closed the group
	struct counter waits;    // (local rank waited for + 1) << 8 | channel, while the slow part of a wait runs
	struct counter pulse;    // counts while the slow part of a wait runs: it does not change in a rank that was stopped there
	_Alignas(LINE_STRIDE) _Atomic uint32_t bell; // anybody: a futex; counts wake-ups
	_Alignas(LINE_STRIDE) struct wanted wanted;
	_Alignas(LINE_STRIDE) struct whole_call present;  // groups over hosts: the call that the rank is in, what = 0 between calls
	_Alignas(LINE_STRIDE) struct whole_call wholes[WHOLE_CALLS]; // the last collectives, by sequence number
	struct counter taken[]; // by ring: units that I need no more
};

struct pair { // from one rank to another
	struct line lines[PAIR_LINES];
	struct counter acked;    // by the receiver: messages whose lines may be written again
	struct counter produced; // by the sender
	struct counter taken;    // by the receiver
};

// A ring starts small and grows with its traffic, since the first touch of a shared page costs microseconds while a ring beyond the L2 cache
// doubles the speed of messages that come often. Each stage has memory of its own.
// Units are 64 bytes; sizes are powers of two and every bound is a multiple of the next size.
enum { UNIT = 64, STAGES = 3 };

struct geometry {
	uint64_t until[STAGES]; // the position where the stage ends
	uint64_t size[STAGES];  // units
	size_t base[STAGES];    // where the stage's memory begins, bytes
};

// A shelf holds what a line announces and is too long for it. All ranks put at the same place in the same call, so that the line is all that has to
// be waited for. SHELF_BYTES is the most a call puts there: a lap is longer than the calls that can be in flight, LINES.
enum { SHELF_BYTES = 4 << 10 };

struct layout {
	size_t areas, pairs, shelves, rings, pair_rings; // offsets
	size_t area_size, shelf_size, ring_size, pair_ring_size;
	size_t total;
	size_t chunk; // bytes that go into a ring at once, at most
	struct geometry shelf, ring, pair_ring;
};

// gorun_layout_for computes where everything is for n ranks; crowded: they have fewer CPUs.
struct layout gorun_layout_for(int n, int crowded);

#endif
