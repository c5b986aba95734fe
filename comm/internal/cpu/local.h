// Calls among the ranks of one host: each goes the way that suits its size.
#ifndef GORUN_LOCAL_H
#define GORUN_LOCAL_H

#include "state.h"

int run_local(struct engine *, const struct call *);

#endif
