// Ranks that wait for each other in calls that never meet: one in a Recv from a rank that is in an AllReduce, two that both Send first. Only ranks
// that waited long enough to sleep look for that.
#ifndef GORUN_DEADLOCK_H
#define GORUN_DEADLOCK_H

#include "state.h"

// deadlock_say tells the others what this rank is about to wait for; NULL: it waits no more.
void deadlock_say(struct engine *, const struct awaited *);
// deadlock_check fails the group where the awaited rank, which said what it waits for, can only go on after we do.
int deadlock_check(struct engine *, const struct awaited *);

#endif
