#include "cases.h"

/* Numbers in a window: SLOTS, and then one for each rank. MPICH 4.0.2 mixes up the windows of three ranks whose lengths are not such round numbers. */
enum { SLOTS = 8, WINDOW = 1024 };

/* Between two fences everybody writes to the next one, reads from the one before, and adds to rank 0. */
static void fenced(MPI_Win win, long *base) {
	const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
	long mine = rank + 1, got = -1;
	for (int i = 0; i < SLOTS; i++)
		base[i] = i == 0 ? rank : 0;
	MPI_Win_fence(0, win);
	MPI_Put(&mine, 1, MPI_LONG, next, 1, 1, MPI_LONG, win);
	MPI_Get(&got, 1, MPI_LONG, previous, 0, 1, MPI_LONG, win);
	MPI_Accumulate(&mine, 1, MPI_LONG, 0, 2, 1, MPI_LONG, MPI_SUM, win);
	MPI_Win_fence(0, win);
	CHECK(got == previous, "get: %ld", got);
	CHECK(base[1] == previous + 1, "put: %ld", base[1]);
	CHECK(rank != 0 || base[2] == (long)size * (size + 1) / 2, "accumulate: %ld", base[2]);
	MPI_Win_fence(0, win);
}

/* The last rank's counter gives everybody a ticket. */
static void locked(MPI_Win win, const long *base) {
	const int last = size - 1;
	const long one = 1;
	long ticket = -1, sum;
	MPI_Win_lock(MPI_LOCK_SHARED, last, 0, win);
	MPI_Fetch_and_op(&one, &ticket, MPI_LONG, last, 3, MPI_SUM, win);
	MPI_Win_unlock(last, win);
	MPI_Allreduce(&ticket, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	CHECK(sum == (long)size * (size - 1) / 2, "tickets that add up to %ld", sum);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
	CHECK(rank != last || base[3] == size, "counter %ld", base[3]);
	MPI_Win_unlock(rank, win);
}

/* Rank 0 opens its window to all others, who write. */
static void exposed(MPI_Win win, const long *base) {
	MPI_Group world, zero, others;
	const int first = 0;
	const long mine = rank * 10;
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 1, &first, &zero);
	MPI_Group_excl(world, 1, &first, &others);
	if (rank == 0) {
		MPI_Win_post(others, 0, win);
		MPI_Win_wait(win);
		for (int r = 1; r < size; r++)
			CHECK(base[SLOTS + r] == r * 10, "put of rank %d: %ld", r, base[SLOTS + r]);
	} else {
		MPI_Win_start(zero, 0, win);
		MPI_Put(&mine, 1, MPI_LONG, 0, SLOTS + rank, 1, MPI_LONG, win);
		MPI_Win_complete(win);
	}
	MPI_Group_free(&zero), MPI_Group_free(&others), MPI_Group_free(&world);
}

void one_sided(void) {
	MPI_Win win;
	long *base;
	MPI_Win_allocate(WINDOW * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
	fenced(win, base);
	locked(win, base);
	MPI_Barrier(MPI_COMM_WORLD);
	exposed(win, base);
	MPI_Win_free(&win);
	if (size == 1)
		return; /* with threads, Open MPI 4.1.4 has no such window for one rank */
	base = space(SLOTS * sizeof(long));
	MPI_Win_create(base, SLOTS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	fenced(win, base);
	MPI_Win_free(&win);
	free(base);
}

/* One rank of all gets a place in the last one. (Open MPI 4.1.4 crashes in this call where its ranks may not read each other's memory.) */
void compare_and_swap(void) {
	MPI_Win win;
	const int last = size - 1;
	const long empty = 0, mine = rank + 1;
	long *base, before = -1;
	int winners;
	MPI_Win_allocate(WINDOW * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
	*base = empty;
	MPI_Win_fence(0, win);
	MPI_Compare_and_swap(&mine, &empty, &before, MPI_LONG, last, 0, win);
	MPI_Win_fence(0, win);
	const int took = before == empty;
	MPI_Allreduce(&took, &winners, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	CHECK(winners == 1, "%d took the place", winners);
	CHECK(rank != last || (*base >= 1 && *base <= size), "place of %ld", *base);
	MPI_Win_free(&win);
}

/* Ranks of one host read each other's memory without a call. */
void shared_window(void) {
	MPI_Comm host;
	MPI_Win win;
	long *base, *theirs;
	int at, count, unit;
	MPI_Aint bytes;
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
	MPI_Comm_rank(host, &at);
	MPI_Comm_size(host, &count);
	MPI_Win_allocate_shared(SLOTS * sizeof(long), sizeof(long), MPI_INFO_NULL, host, &base, &win);
	MPI_Win_fence(0, win);
	for (int i = 0; i < SLOTS; i++)
		base[i] = at * 100 + i;
	MPI_Win_fence(0, win);
	for (int peer = 0; peer < count; peer++) {
		MPI_Win_shared_query(win, peer, &bytes, &unit, &theirs);
		CHECK(bytes == SLOTS * sizeof(long) && unit == sizeof(long), "%ld bytes of %d", (long)bytes, unit);
		for (int i = 0; i < SLOTS; i++)
			CHECK(theirs[i] == peer * 100 + i, "%ld of peer %d at %d", theirs[i], peer, i);
	}
	MPI_Win_fence(0, win);
	MPI_Win_free(&win);
	MPI_Comm_free(&host);
}
