// Groups over several hosts: calls are made of calls among a host's ranks (run_local) and of streams between ranks of different hosts (net.h).
#ifndef GORUN_HOSTS_H
#define GORUN_HOSTS_H

#include "state.h"

void hosts_free(struct hosts *);
int run_over_hosts(struct engine *, const struct call *);

// What Go calls.

// gorun_engine_spread makes the group one over several hosts, before its first call. host_of has the number of each of the n ranks' hosts, counted
// by their lowest ranks, fds the connection to each rank of another host. The connections belong to the engine then. -1: no memory.
int gorun_engine_spread(struct engine *, int n, int me, const int *host_of, const int *fds, uint64_t first_call);

#endif
