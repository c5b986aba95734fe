// The CPU back end: collectives among the ranks of one host through shared memory, and of several hosts with TCP between them. One struct engine
// belongs to one rank of one group; its functions are called by one thread at a time, apart from those that are marked "any thread".
//
// Files are layers; each knows only those below it (layers_test.go):
//
//   engine, do                               a rank of a group, and what Go calls
//   hosts, hosts_move, hosts_reduce, team    calls over several hosts
//   net                                      streams between ranks of different hosts
//   local                                    which way a call among the ranks of one host goes
//   direct, pairs, reductions, moves, lines  the ways
//   ring, line                               data from rank to rank; who makes which call
//   wait                                     for other ranks' words
//   deadlock                                 ranks that wait for each other
//   failure                                  why the group cannot go on
//   whole, bell                              what a host's ranks see of a call over hosts; waking those who sleep
//   state                                    what one rank knows
//   call, blocks                             calls, and how their data divides
//   segment, kernels                         the shared memory; arithmetic
#ifndef GORUN_ENGINE_H
#define GORUN_ENGINE_H

#include "bell.h"
#include "failure.h"
#include "hosts.h"
#include "whole.h"

struct engine_options {
	int ranks, rank;
	int expedited;        // every rank can call membarrier's expedited command
	int crowded;          // more ranks than CPUs: give the CPU away instead of spinning
	uint64_t timeout_ns;  // how long a rank may be waited for; 0: for ever
	int past;             // rings are written past the caches at first (tests)
	uint64_t first_call;  // sequence number of the call before the first (tests: near the wrap)
};

// gorun_engine_new joins the segment that lies at base (gorun_layout_for(ranks, crowded).total bytes, zero at first); NULL without memory.
// gorun_engine_prepare makes a fresh segment one whose ranks start behind call first_call; not needed where that is 0.
void gorun_engine_prepare(void *base, int ranks, int crowded, uint64_t first_call);
struct engine *gorun_engine_new(void *base, const struct engine_options *options);
void gorun_engine_free(struct engine *);

// gorun_engine_run runs one call. After RUN_FAILED gorun_engine_failure says why. RUN_LATE comes only in groups over several hosts: a rank was
// waited for too long, and gorun_engine_late is to be called with who is to blame.
int gorun_engine_run(struct engine *, const struct call *);
// gorun_engine_agree returns when all ranks are about to make this call, by other means than this engine; it does nothing else.
int gorun_engine_agree(struct engine *, const struct call *);
// gorun_engine_monitored is a barrier with its own time limit.
int gorun_engine_monitored(struct engine *, uint64_t timeout_ns);

// gorun_engine_sequence is the sequence number of the last call.
uint64_t gorun_engine_sequence(const struct engine *);

// gorun_engine_region makes memory that all ranks map known: each rank's part is size bytes and they lie one after the other at base. The
// same regions must be added by all ranks, and dropped, between the same calls.
int gorun_engine_region(struct engine *, void *base, size_t size);
void gorun_engine_region_drop(struct engine *, void *base);

#endif
