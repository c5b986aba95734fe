#include "cases.h"

enum { COUNT = 5, ROOTS = 3, BIG = 1 << 20 }; /* BIG doubles are 8 MiB */

/* The sum over all ranks of what they have at place i. */
static double sum_at(int i) {
	double sum = 0;
	for (int r = 0; r < size; r++)
		sum += value_of(r, i);
	return sum;
}

static double *mine(int count) {
	double *values = space((size_t)count * sizeof(double));
	for (int i = 0; i < count; i++)
		values[i] = value_of(rank, i);
	return values;
}

/* The values of every rank, one after the other. */
static void check_all(const double *values, int count, const char *of) {
	for (int i = 0; i < size * count; i++)
		CHECK(values[i] == value_of(i / count, i % count), "%s: %g at %d", of, values[i], i);
}

static void check_sums(const double *values, int first, int count, const char *of) {
	for (int i = 0; i < count; i++)
		CHECK(values[i] == sum_at(first + i), "%s: %g at %d, not %g", of, values[i], i, sum_at(first + i));
}

static void rooted(int root) {
	double *own = mine(COUNT), *all = space((size_t)size * COUNT * sizeof(double)), got[COUNT];
	memcpy(got, own, sizeof got);
	MPI_Bcast(got, COUNT, MPI_DOUBLE, root, MPI_COMM_WORLD);
	for (int i = 0; i < COUNT; i++)
		CHECK(got[i] == value_of(root, i), "bcast from %d: %g at %d", root, got[i], i);
	MPI_Reduce(own, got, COUNT, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
	if (rank == root)
		check_sums(got, 0, COUNT, "reduce");
	MPI_Gather(own, COUNT, MPI_DOUBLE, all, COUNT, MPI_DOUBLE, root, MPI_COMM_WORLD);
	if (rank == root)
		check_all(all, COUNT, "gather");
	MPI_Scatter(all, COUNT, MPI_DOUBLE, got, COUNT, MPI_DOUBLE, root, MPI_COMM_WORLD);
	CHECK(memcmp(got, own, sizeof got) == 0, "scatter from %d: %g", root, got[0]);
	free(own), free(all);
}

/* The lowest product of (a, b): an operation of the program's own, which keeps the order of ranks. */
static void join_numbers(void *in, void *inout, int *count, MPI_Datatype *type) {
	const int *left = in;
	int *right = inout;
	(void)type;
	for (int i = 0; i < *count; i++)
		right[i] = left[i] * 3 % 1009 + right[i];
}

static void operations(void) {
	struct {
		double value;
		int at;
	} own = {(rank * 7 + 3) % size, rank}, found;
	int least, most, got, want = 1;
	MPI_Op op;
	MPI_Allreduce(&rank, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	MPI_Allreduce(&rank, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	CHECK(least == 0 && most == size - 1, "least %d, most %d", least, most);
	MPI_Allreduce(&own, &found, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
	CHECK((found.at * 7 + 3) % size == (int)found.value, "%g at %d", found.value, found.at);
	MPI_Op_create(join_numbers, 0, &op);
	got = rank + 1;
	MPI_Scan(&got, &most, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	CHECK(most == (rank + 1) * (rank + 2) / 2, "scan: %d", most);
	most = 0;
	MPI_Exscan(&got, &most, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	CHECK(rank == 0 || most == rank * (rank + 1) / 2, "exscan: %d", most);
	MPI_Reduce(&got, &least, 1, MPI_INT, MPI_LXOR, 0, MPI_COMM_WORLD);
	CHECK(rank != 0 || least == size % 2, "exclusive or: %d", least);
	MPI_Scan(&got, &most, 1, MPI_INT, op, MPI_COMM_WORLD);
	for (int r = 1; r <= rank && rank == 1; r++) /* further on it depends on how the library groups them */
		want = want * 3 % 1009 + r + 1;
	CHECK(rank > 1 || most == want, "operation of one's own: %d, not %d", most, want);
	MPI_Op_free(&op);
}

void collectives(void) {
	double *own = mine(size * COUNT), *all = space((size_t)size * size * COUNT * sizeof(double)), got[COUNT];
	for (int root = 0; root < size && root < ROOTS; root++)
		rooted(root);
	rooted(size - 1);
	MPI_Allgather(own, COUNT, MPI_DOUBLE, all, COUNT, MPI_DOUBLE, MPI_COMM_WORLD);
	check_all(all, COUNT, "allgather");
	MPI_Allreduce(own, got, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	check_sums(got, 0, COUNT, "allreduce");
	MPI_Reduce_scatter_block(own, got, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	check_sums(got, rank * COUNT, COUNT, "reduce_scatter_block");
	MPI_Alltoall(own, COUNT, MPI_DOUBLE, all, COUNT, MPI_DOUBLE, MPI_COMM_WORLD);
	for (int i = 0; i < size * COUNT; i++)
		CHECK(all[i] == value_of(i / COUNT, rank * COUNT + i % COUNT), "alltoall: %g at %d", all[i], i);
	free(own), free(all);
	operations();
}

void in_place(void) {
	double *all = space((size_t)size * COUNT * sizeof(double)), *own = mine(COUNT), got[COUNT];
	memcpy(got, own, sizeof got);
	MPI_Allreduce(MPI_IN_PLACE, got, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	check_sums(got, 0, COUNT, "allreduce");
	memcpy(got, own, sizeof got);
	MPI_Reduce(rank == size - 1 ? MPI_IN_PLACE : got, got, COUNT, MPI_DOUBLE, MPI_SUM, size - 1, MPI_COMM_WORLD);
	if (rank == size - 1)
		check_sums(got, 0, COUNT, "reduce");
	memcpy(all + rank * COUNT, own, sizeof got);
	MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, COUNT, MPI_DOUBLE, MPI_COMM_WORLD);
	check_all(all, COUNT, "allgather");
	memset(all, 0, size * COUNT * sizeof(double));
	memcpy(all + rank * COUNT, own, sizeof got);
	if (rank == 0)
		MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, COUNT, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	else
		MPI_Gather(own, COUNT, MPI_DOUBLE, NULL, 0, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD);
	if (rank == 0)
		check_all(all, COUNT, "gather");
	if (rank == 0)
		MPI_Scatter(all, COUNT, MPI_DOUBLE, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD);
	else
		MPI_Scatter(NULL, 0, MPI_DATATYPE_NULL, got, COUNT, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	CHECK(rank == 0 || memcmp(got, own, sizeof got) == 0, "scatter: %g", got[0]);
	for (int i = 0; i < size * COUNT; i++)
		all[i] = value_of(rank, i);
	MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, COUNT, MPI_DOUBLE, MPI_COMM_WORLD);
	for (int i = 0; i < size * COUNT; i++)
		CHECK(all[i] == value_of(i / COUNT, rank * COUNT + i % COUNT), "alltoall: %g at %d", all[i], i);
	memcpy(got, own, sizeof got);
	MPI_Scan(MPI_IN_PLACE, got, COUNT, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	CHECK(memcmp(got, own, sizeof got) == 0, "scan: %g", got[0]);
	free(all), free(own);
}

/* Rank r has r + 1 numbers for everybody, and so on: no two have the same. */
void vectors(void) {
	int *counts = space(size * sizeof(int)), *places = space(size * sizeof(int)), *sends = space(size * sizeof(int)), *from = space(size * sizeof(int)), total = 0;
	for (int r = 0; r < size; r++) {
		counts[r] = r + 1;
		places[r] = total;
		total += counts[r] + 1; /* and a gap */
	}
	double *all = space(total * sizeof(double)), *own = mine(total), *got = space((size_t)size * size * sizeof(double));
	MPI_Allgatherv(own, rank + 1, MPI_DOUBLE, all, counts, places, MPI_DOUBLE, MPI_COMM_WORLD);
	for (int r = 0; r < size; r++)
		for (int i = 0; i < counts[r]; i++)
			CHECK(all[places[r] + i] == value_of(r, i), "allgatherv: %g of rank %d", all[places[r] + i], r);
	memset(all, 0, total * sizeof(double));
	MPI_Gatherv(own, rank + 1, MPI_DOUBLE, all, counts, places, MPI_DOUBLE, size - 1, MPI_COMM_WORLD);
	for (int r = 0; r < size && rank == size - 1; r++)
		CHECK(all[places[r] + r] == value_of(r, r), "gatherv: %g of rank %d", all[places[r] + r], r);
	MPI_Scatterv(all, counts, places, MPI_DOUBLE, got, rank + 1, MPI_DOUBLE, size - 1, MPI_COMM_WORLD);
	CHECK(memcmp(got, own, (rank + 1) * sizeof(double)) == 0, "scatterv: %g", got[0]);
	for (int r = 0; r < size; r++) { /* rank a sends b numbers of its own to rank b */
		sends[r] = r;
		from[r] = r * rank;
		counts[r] = rank;
		places[r] = 0;
	}
	MPI_Alltoallv(own, sends, places, MPI_DOUBLE, got, counts, from, MPI_DOUBLE, MPI_COMM_WORLD);
	for (int i = 0; i < size * rank; i++)
		CHECK(got[i] == value_of(i / rank, i % rank), "alltoallv: %g at %d", got[i], i);
	for (int r = 0; r < size; r++)
		counts[r] = r % 3;
	total = 0;
	for (int r = 0; r < rank; r++)
		total += counts[r];
	MPI_Reduce_scatter(own, got, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	check_sums(got, total, counts[rank], "reduce_scatter");
	free(counts), free(places), free(sends), free(from), free(all), free(own), free(got);
}

void nonblocking(void) {
	MPI_Request requests[3];
	double *own = mine(COUNT), *all = space((size_t)size * COUNT * sizeof(double)), got[COUNT];
	MPI_Iallreduce(own, got, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
	MPI_Iallgather(own, COUNT, MPI_DOUBLE, all, COUNT, MPI_DOUBLE, MPI_COMM_WORLD, &requests[1]);
	MPI_Ibarrier(MPI_COMM_WORLD, &requests[2]);
	MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
	check_sums(got, 0, COUNT, "iallreduce");
	check_all(all, COUNT, "iallgather");
	free(own), free(all);
}

void big(void) {
	double *own = mine(BIG), *got = space(BIG * sizeof(double));
	MPI_Allreduce(own, got, BIG, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	check_sums(got, 0, BIG, "allreduce of 8 MiB");
	MPI_Bcast(own, BIG, MPI_DOUBLE, size - 1, MPI_COMM_WORLD);
	for (int i = 0; i < BIG; i++)
		CHECK(own[i] == value_of(size - 1, i), "bcast of 8 MiB: %g at %d", own[i], i);
	const int last = size - 1;
	if (rank == 0 || rank == last)
		MPI_Sendrecv(got, BIG, MPI_DOUBLE, last - rank, 1, own, BIG, MPI_DOUBLE, last - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (rank == 0 || rank == last)
		CHECK(memcmp(own, got, BIG * sizeof(double)) == 0, "sendrecv of 8 MiB: %g", own[0]);
	free(own), free(got);
}
