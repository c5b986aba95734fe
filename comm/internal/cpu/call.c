#include "call.h"

#include <string.h>

uint64_t what_of(const struct announcement *a) {
	return a->kind | (uint64_t)a->dtype << 8 | (uint64_t)a->op << 16 | (uint64_t)a->root << 32;
}

struct announcement announcement_in(uint64_t what, uint64_t count) {
	return (struct announcement){.kind = (uint8_t)what, .dtype = (uint8_t)(what >> 8), .op = (uint8_t)(what >> 16),
	                             .root = (uint32_t)(what >> 32), .count = count};
}

void announcement_read(uint32_t signature, const struct line *l, struct announcement *a) {
	if (signature & SIG_ANNOUNCED) {
		memcpy(a, l->payload, sizeof *a);
		return;
	}
	memset(a, 0, sizeof *a);
	a->kind = signature >> 26 & 31;
	a->dtype = signature >> 22 & 15;
	a->op = signature >> 18 & 15;
	a->count = signature >> 12 & 63;
	a->root = signature & (SIG_ROOTS - 1);
}
