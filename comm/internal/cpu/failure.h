// Why the group cannot go on.
#ifndef GORUN_FAILURE_H
#define GORUN_FAILURE_H

#include "state.h"

// Failures: the first one counts. Each returns RUN_FAILED. fail_mismatch counts ranks as the host does, the others as the group does.
int fail_mismatch(struct engine *, int rank, const struct announcement *theirs);
int fail_between(struct engine *, int rank, const struct announcement *ours, const struct announcement *theirs);
int fail_gone(struct engine *, int rank, int how);
int fail_with(struct engine *, const char *reason);
// fail_late notes for which rank of the group a call waited too long, and returns RUN_LATE: nothing has failed yet.
int fail_late(struct engine *, int rank, uint64_t after_ns);

// What Go calls, on any thread.

void gorun_engine_abort(struct engine *, const char *reason); // fails the group for everybody
void gorun_engine_gone(struct engine *, int rank, int how);   // rank's process ended (1) or closed the group (2)
const struct failure *gorun_engine_failure(struct engine *);  // NULL without one

// gorun_engine_far_gone is gorun_engine_gone for a rank of another host, gorun_engine_import takes a failure that another host
// noticed, gorun_engine_late writes one about the ranks whose bits are set, after RUN_LATE.
void gorun_engine_far_gone(struct engine *, int rank, int how);
void gorun_engine_import(struct engine *, const struct failure *);
void gorun_engine_late(struct engine *, const uint64_t *late);
// gorun_engine_disagree writes down, after RUN_LATE, that rank makes another call than ours; what and count as in struct whole_call.
void gorun_engine_disagree(struct engine *, int rank, uint64_t what, uint64_t count);
// gorun_engine_waited_for is the rank that was waited for, after RUN_LATE.
int gorun_engine_waited_for(const struct engine *);
// gorun_engine_look says whether the group failed. The end of a rank's process is a failure then, whoever noticed it. Only the calling thread.
int gorun_engine_look(struct engine *);

#endif
