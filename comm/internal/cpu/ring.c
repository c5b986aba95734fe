#include "ring.h"

// ring_room shows what was put and waits until the slowest reader has passed floor.
int ring_room(struct engine *e, uint64_t floor) {
	uint64_t least = UINT64_MAX;
	ring_publish(e);
	for (int i = 0; i < e->n; i++) {
		if (i == e->me) continue;
		_Atomic uint64_t *taken = &area_of(e, i)->taken[e->me].value;
		TRY(wait_counter(e, taken, floor, i, CH_TAKEN));
		uint64_t now = atomic_load_explicit(taken, memory_order_acquire);
		if (now < least) least = now;
	}
	e->ring.floor = least;
	return RUN_OK;
}
