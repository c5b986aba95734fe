#include "cases.h"

static int sum_of_ranks(MPI_Comm comm) {
	int sum;
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
	return sum;
}

/* Even and odd ranks, in reverse order; then what is between them, and all together again. */
static void halves(void) {
	MPI_Comm half, between, whole;
	int at, count, peers, sum;
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
	MPI_Comm_rank(half, &at);
	MPI_Comm_size(half, &count);
	CHECK(count == (size + 1 - rank % 2) / 2, "%d in the half", count);
	CHECK(at == count - 1 - rank / 2, "number %d in the half", at);
	if (size > 1) {
		/* The first of each half is the last one in the world, or the one before. */
		const int leader = rank % 2 == size % 2 ? size - 1 : size - 2;
		MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, leader, 5, &between);
		MPI_Comm_remote_size(between, &peers);
		CHECK(peers == size - count, "%d in the other half", peers);
		MPI_Intercomm_merge(between, rank % 2, &whole);
		sum = sum_of_ranks(whole);
		CHECK(sum == size * (size - 1) / 2, "sum %d", sum);
		MPI_Comm_free(&between);
		MPI_Comm_free(&whole);
	}
	MPI_Comm_free(&half);
}

/* A group that only its members make. */
static void groups(void) {
	MPI_Group world, some;
	MPI_Comm comm;
	int range[1][3] = {{0, size - 1, 3}}, sum, want = 0;
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_range_incl(world, 1, range, &some);
	if (rank % 3 == 0) {
		MPI_Comm_create_group(MPI_COMM_WORLD, some, 11, &comm);
		for (int r = 0; r < size; r += 3)
			want += r;
		sum = sum_of_ranks(comm);
		CHECK(sum == want, "sum %d", sum);
		MPI_Comm_free(&comm);
	}
	MPI_Group_free(&some);
	MPI_Group_free(&world);
}

static void grid(void) {
	int dims[2] = {0, 0}, periods[2] = {1, 1}, source, target, got;
	MPI_Comm cart;
	MPI_Dims_create(size, 2, dims);
	MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart);
	for (int dimension = 0; dimension < 2; dimension++) {
		MPI_Cart_shift(cart, dimension, 1, &source, &target);
		MPI_Sendrecv(&rank, 1, MPI_INT, target, 3, &got, 1, MPI_INT, source, 3, cart, MPI_STATUS_IGNORE);
		CHECK(got == source, "%d, not %d", got, source);
	}
	MPI_Comm_free(&cart);
}

void communicators(void) {
	MPI_Comm copy;
	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	int sum = sum_of_ranks(copy);
	CHECK(sum == size * (size - 1) / 2, "sum %d", sum);
	MPI_Comm_free(&copy);
	halves();
	groups();
	grid();
}

/* A launcher's LOCAL_RANK and LOCAL_WORLD_SIZE are MPI's own. */
void shared_type(void) {
	MPI_Comm host;
	int at, count;
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
	MPI_Comm_rank(host, &at);
	MPI_Comm_size(host, &count);
	const char *here = getenv("LOCAL_WORLD_SIZE"), *place = getenv("LOCAL_RANK");
	CHECK(here == NULL || atoi(here) == count, "%d ranks share memory, LOCAL_WORLD_SIZE is %s", count, here);
	CHECK(place == NULL || atoi(place) == at, "%d of those that share memory, LOCAL_RANK is %s", at, place);
	MPI_Comm_free(&host);
}

void attributes(void) {
	int *value, set, major, minor;
	char text[MPI_MAX_LIBRARY_VERSION_STRING];
	MPI_Get_version(&major, &minor);
	CHECK(major >= 3, "MPI %d.%d", major, minor);
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &set);
	CHECK(set && *value >= 32767, "the greatest tag");
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &set);
	CHECK(!set || *value >= 1, "universe of %d", *value);
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &set);
	CHECK(set && *value == 0, "MPI_APPNUM %d", set ? *value : -1);
	MPI_Get_processor_name(text, &set);
	CHECK(set > 0 && text[0] != '\0', "no processor name");
	const char *world = getenv("RANK"), *all = getenv("WORLD_SIZE");
	CHECK(world == NULL || atoi(world) == rank, "RANK is %s", world);
	CHECK(all == NULL || atoi(all) == size, "WORLD_SIZE is %s", all);
}
