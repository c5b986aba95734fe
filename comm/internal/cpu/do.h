// What Go calls for each operation: plain numbers instead of a structure with pointers into Go's memory. The engine is a number, too: a pointer
// would have Go look at each call whether it is one into its own memory, which takes 5 ns.
#ifndef GORUN_DO_H
#define GORUN_DO_H

#include "engine.h"

// gorun_engine_do runs a call; what is kind | dtype << 8 | op << 16.
int gorun_engine_do(uintptr_t engine, uint32_t what, int root, size_t count, uintptr_t send, uintptr_t recv);
// gorun_engine_do_blocks runs one of those that need more; counts point to one number for each rank or are NULL.
int gorun_engine_do_blocks(uintptr_t engine, uint32_t what, int root, int from, size_t count, size_t recv_count, uintptr_t send, uintptr_t recv,
                     const int64_t *counts, const int64_t *send_counts, const int64_t *recv_counts);
// gorun_engine_do_agree is gorun_engine_agree; counts as above.
int gorun_engine_do_agree(struct engine *, uint32_t what, int root, size_t count, const int64_t *counts);

#endif
