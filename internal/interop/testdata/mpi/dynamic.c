#include "cases.h"

/* Parents and children of an intercommunicator talk, and then stand in one row: the parents first. */
static void meet(MPI_Comm between, int is_child, int parents, int children) {
	MPI_Comm whole;
	int peers, at, count, sum, number = 0;
	MPI_Comm_remote_size(between, &peers);
	CHECK(peers == (is_child ? parents : children), "%d on the other side", peers);
	if (!is_child)
		number = 4711;
	MPI_Bcast(&number, 1, MPI_INT, is_child ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, between);
	CHECK(number == 4711, "broadcast: %d", number);
	MPI_Intercomm_merge(between, is_child, &whole);
	MPI_Comm_rank(whole, &at);
	MPI_Comm_size(whole, &count);
	CHECK(count == parents + children && at == rank + (is_child ? parents : 0), "number %d of %d", at, count);
	MPI_Allreduce(&at, &sum, 1, MPI_INT, MPI_SUM, whole);
	CHECK(sum == count * (count - 1) / 2, "sum %d", sum);
	MPI_Comm_free(&whole);
	MPI_Comm_disconnect(&between);
}

void spawned(MPI_Comm parent) {
	int parents;
	MPI_Comm_remote_size(parent, &parents);
	meet(parent, 1, parents, size);
}

void spawn(void) {
	enum { CHILDREN = 2 };
	MPI_Comm between;
	int errors[CHILDREN] = {-1, -1};
	char *arguments[] = {"an argument with blanks", NULL};
	MPI_Comm_spawn(self, arguments, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, errors);
	CHECK(errors[0] == MPI_SUCCESS && errors[1] == MPI_SUCCESS, "error codes %d, %d", errors[0], errors[1]);
	meet(between, 0, size, CHILDREN);
}

void spawn_multiple(void) {
	MPI_Comm between;
	char *commands[] = {self, self}, *first[] = {"first", NULL}, *second[] = {"second", NULL}, **arguments[] = {first, second};
	const int counts[] = {1, 2};
	const MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
	MPI_Comm_spawn_multiple(2, commands, arguments, counts, infos, size - 1, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
	meet(between, 0, size, 3);
}

/* The lower half opens a port and tells its name; the upper half looks for it and comes. */
void names(void) {
	char port[MPI_MAX_PORT_NAME] = "";
	const char *service = "gorun test";
	MPI_Comm half, between;
	const int lower = (size + 1) / 2, is_upper = rank >= lower;
	MPI_Comm_split(MPI_COMM_WORLD, is_upper, rank, &half);
	if (rank == 0) {
		MPI_Open_port(MPI_INFO_NULL, port);
		MPI_Publish_name(service, MPI_INFO_NULL, port);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (size == 1) {
		MPI_Lookup_name(service, MPI_INFO_NULL, port);
	} else if (is_upper) {
		if (rank == lower)
			MPI_Lookup_name(service, MPI_INFO_NULL, port);
		MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &between);
	} else {
		MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &between);
	}
	if (size > 1) {
		int number = 0, peers;
		MPI_Comm_remote_size(between, &peers);
		CHECK(peers == (is_upper ? lower : size - lower), "%d on the other side", peers);
		MPI_Allreduce(&rank, &number, 1, MPI_INT, MPI_MAX, between);
		CHECK(number == (is_upper ? lower : size) - 1, "greatest rank there: %d", number);
		MPI_Comm_disconnect(&between);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		MPI_Unpublish_name(service, MPI_INFO_NULL, port);
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
		CHECK(MPI_Lookup_name(service, MPI_INFO_NULL, port) != MPI_SUCCESS, "a name that is gone was found");
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
		MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
		MPI_Close_port(port);
	}
	MPI_Comm_free(&half);
}
